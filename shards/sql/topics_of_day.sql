-- The numbers of the topics with messages or events of a day.
SELECT topic FROM message WHERE day = %(day)s
UNION
SELECT topic FROM event
WHERE at >= %(day)s::date::timestamp AT TIME ZONE 'UTC' AND at < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC'

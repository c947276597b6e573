-- The refs of waiting messages that come due soon: arrays of topic and of the time from which on each is unknown (null:
-- from now). Answers topic, due (us) and ref, at most %(limit)s of a topic, the soonest first.
WITH wanted AS (
    SELECT w.topic, coalesce(w.since, now()) AS since
    FROM unnest(%(topic)s::integer[], %(since)s::timestamptz[]) AS w (topic, since)
)
SELECT topic, (extract(epoch FROM due) * 1000000)::bigint, ref FROM (
    SELECT l.topic, found.due, ref(l.priority, found.due, found.id, found.epoch, found.day),
           row_number() OVER (PARTITION BY l.topic ORDER BY found.due) AS n
    FROM wanted w JOIN level l ON l.topic = w.topic
    CROSS JOIN LATERAL (
        SELECT d.due, d.id, d.epoch, d.day FROM delivery d
        WHERE d.topic = l.topic AND d.state = 0 AND d.priority = l.priority
          AND d.due >= w.since AND d.due < %(until)s
        ORDER BY d.due, d.id LIMIT %(limit)s
    ) found
) ahead (topic, due, ref, n)
WHERE n <= %(limit)s
ORDER BY topic, due

-- The events of a day below a txid, of some topics and kinds or of all, in parts of about %(most)s rows by id: their lowest and
-- highest id.
SELECT min(id), max(id)
FROM (SELECT id, (rank() OVER (ORDER BY id) - 1) / %(most)s AS part
      FROM event
      WHERE at >= %(day)s::date::timestamp AT TIME ZONE 'UTC' AND at < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC'
        AND txid < %(horizon)s
        AND (%(topics)s::int[] IS NULL OR topic = ANY (%(topics)s::int[]))
        AND (%(kinds)s::int[] IS NULL OR kind = ANY (%(kinds)s::int[]))) parted
GROUP BY part ORDER BY 1

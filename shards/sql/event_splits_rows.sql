-- The events of a day below a txid, in parts of about %(most)s rows by id: the lowest and highest id of each.
SELECT min(id), max(id)
FROM (SELECT id, (rank() OVER (ORDER BY id) - 1) / %(most)s AS part
      FROM event
      WHERE at >= %(day)s::date::timestamp AT TIME ZONE 'UTC' AND at < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC'
        AND txid < %(horizon)s) parted
GROUP BY part ORDER BY 1

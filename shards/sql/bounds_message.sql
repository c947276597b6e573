-- The highest id of each part of about %(most)s bytes of a day's messages, by a sample of %(percent)s in a hundred pages.
SELECT max(id)
FROM (SELECT id, floor(sum(payload_bytes + 400) OVER (ORDER BY id) * 100 / %(percent)s::float8 / %(most)s) AS part
      FROM message TABLESAMPLE SYSTEM (%(percent)s) REPEATABLE (0) WHERE day = %(day)s) parted
GROUP BY part ORDER BY 1

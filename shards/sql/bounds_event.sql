-- As bounds_message.sql, of a day's events.
SELECT max(id)
FROM (SELECT id, floor(sum(coalesce(octet_length(detail), 0) + 200) OVER (ORDER BY id)
                       * 100 / %(percent)s::float8 / %(most)s) AS part
      FROM event TABLESAMPLE SYSTEM (%(percent)s) REPEATABLE (0)
      WHERE at >= %(day)s::date::timestamp AT TIME ZONE 'UTC' AND at < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC'
     ) parted
GROUP BY part ORDER BY 1

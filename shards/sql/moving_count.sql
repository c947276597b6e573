-- On the shard that slots come to: note in the counts what has been copied of these messages: array of ids.
WITH waiting AS (
    SELECT topic, state, due, priority FROM delivery WHERE id = ANY(%(ids)s::bigint[])
), buried AS (
    SELECT topic, priority FROM dead_letter WHERE id = ANY(%(ids)s::bigint[])
), levels AS (
    INSERT INTO level SELECT topic, priority FROM waiting UNION SELECT topic, priority FROM buried ORDER BY 1, 2
    ON CONFLICT DO NOTHING
)
INSERT INTO tally_delta
SELECT topic, CASE state WHEN 0 THEN bucket(due) ELSE 0 END, count(*) FILTER (WHERE state = 0),
       count(*) FILTER (WHERE state > 0), 0
FROM waiting GROUP BY 1, 2
UNION ALL SELECT topic, 0, 0, 0, count(*) FROM buried GROUP BY 1

-- On the shard that slots come to: forget what was copied of these messages, since it has changed: array of ids. What is
-- immutable (the message itself, and that its key admitted it) stays.
WITH given AS (
    SELECT unnest(%(ids)s::bigint[]) AS id
), waiting AS (
    DELETE FROM delivery d USING given g WHERE d.id = g.id RETURNING d.topic, d.state, d.due
), buried AS (
    DELETE FROM dead_letter d USING given g WHERE d.id = g.id RETURNING d.topic
), told AS (
    DELETE FROM event e USING given g WHERE e.id = g.id
)
INSERT INTO tally_delta
SELECT topic, CASE state WHEN 0 THEN bucket(due) ELSE 0 END, -count(*) FILTER (WHERE state = 0),
       -count(*) FILTER (WHERE state > 0), 0
FROM waiting GROUP BY 1, 2
UNION ALL SELECT topic, 0, 0, 0, -count(*) FROM buried GROUP BY 1

-- On the shard that slots come to: note in the counts every delivery of them.
WITH waiting AS (
    SELECT topic, state, due, priority FROM delivery WHERE get_bit(%(slots)s::bit(1024), (id %% 1024)::integer) = 1
), levels AS (
    INSERT INTO level SELECT DISTINCT topic, priority FROM waiting ORDER BY 1, 2 ON CONFLICT DO NOTHING
)
INSERT INTO tally_delta
SELECT topic, CASE state WHEN 0 THEN bucket(due) ELSE 0 END, count(*) FILTER (WHERE state = 0),
       count(*) FILTER (WHERE state > 0), 0
FROM waiting GROUP BY 1, 2

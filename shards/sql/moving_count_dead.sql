-- On the shard that slots come to: note in the counts every dead letter of them.
WITH buried AS (
    SELECT topic, priority FROM dead_letter WHERE get_bit(%(slots)s::bit(1024), (id %% 1024)::integer) = 1
), levels AS (
    INSERT INTO level SELECT DISTINCT topic, priority FROM buried ORDER BY 1, 2 ON CONFLICT DO NOTHING
)
INSERT INTO tally_delta SELECT topic, 0, 0, 0, count(*) FROM buried GROUP BY 1

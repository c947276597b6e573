-- Fold up to %(limit)s deltas into the tally, and drop what has come to nothing. Answers how many deltas there were.
WITH gone AS (
    DELETE FROM tally_delta WHERE ctid = ANY (ARRAY(SELECT ctid FROM tally_delta LIMIT %(limit)s)) RETURNING *
), folded AS (
    INSERT INTO tally AS t (topic, bucket, waiting, leased, dead)
    SELECT topic, bucket, sum(waiting), sum(leased), sum(dead) FROM gone GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (topic, bucket) DO UPDATE
    SET waiting = t.waiting + excluded.waiting, leased = t.leased + excluded.leased, dead = t.dead + excluded.dead
)
SELECT count(*) FROM gone

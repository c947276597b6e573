-- Compare the tally with what there is, in one snapshot, and write the difference as one more delta. Answers the topics,
-- buckets and differences that were found.
WITH counted AS (
    SELECT topic, CASE state WHEN 0 THEN bucket(due) ELSE 0 END AS bucket, count(*) FILTER (WHERE state = 0) AS waiting,
           count(*) FILTER (WHERE state > 0) AS leased, 0::bigint AS dead
    FROM delivery GROUP BY 1, 2
    UNION ALL SELECT topic, 0, 0, 0, count(*) FROM dead_letter GROUP BY 1
    UNION ALL SELECT topic, bucket, -waiting, -leased, -dead FROM tally
    UNION ALL SELECT topic, bucket, -waiting, -leased, -dead FROM tally_delta
)
INSERT INTO tally_delta
SELECT topic, bucket, sum(waiting), sum(leased), sum(dead) FROM counted GROUP BY 1, 2
HAVING sum(waiting) <> 0 OR sum(leased) <> 0 OR sum(dead) <> 0
RETURNING topic, bucket, waiting, leased, dead

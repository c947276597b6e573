-- What waits, by topic: the %(most)s topics that matter most, half of them the deepest, the others those with the oldest
-- ready message and with the most dead letters; all the rest together as `_other`. Topics that have left, or are not quite
-- here, are another shard's to count. Answers namespace, topic, ready,
-- scheduled, in flight, dead letters, and the age of the oldest ready message. From the tally: what comes due within the
-- running ten seconds is ready here, and the age of `_other` is right to ten seconds.
WITH summed AS (
    SELECT topic, bucket, sum(waiting) AS waiting, sum(leased) AS leased, sum(dead) AS dead
    FROM (TABLE tally UNION ALL TABLE tally_delta) both_parts GROUP BY topic, bucket
), queued AS (
    SELECT topic, sum(waiting) FILTER (WHERE bucket <= bucket(now())) AS ready,
           sum(waiting) FILTER (WHERE bucket > bucket(now())) AS scheduled, sum(leased) AS in_flight, sum(dead) AS dead,
           to_timestamp(10.0 * min(bucket) FILTER (WHERE waiting > 0 AND bucket <= bucket(now()))) AS oldest
    FROM summed GROUP BY topic
), counted AS (
    SELECT t.id, t.namespace, t.name, coalesce(q.ready, 0) AS ready, coalesce(q.scheduled, 0) AS scheduled,
           coalesce(q.in_flight, 0) AS in_flight, coalesce(q.dead, 0) AS dead, q.oldest
    FROM topic t LEFT JOIN queued q ON q.topic = t.id
    WHERE (SELECT hidden_slots() = 0::bit(1024))
       OR get_bit((SELECT hidden_slots()), slot_of(t.namespace, t.name)) = 0
), ranked AS (
    SELECT *, count(*) OVER () AS topics,
           row_number() OVER (ORDER BY ready DESC, in_flight DESC, scheduled DESC, dead DESC, id) AS by_depth,
           row_number() OVER (ORDER BY oldest, id) AS by_age, row_number() OVER (ORDER BY dead DESC, id) AS by_dead
    FROM counted
), chosen AS (
    SELECT *, topics <= %(most)s OR by_depth <= (%(most)s + 1) / 2 OR (by_age <= %(most)s / 4 AND oldest IS NOT NULL)
              OR (by_dead <= %(most)s / 4 AND dead > 0) AS shown
    FROM ranked
), exact AS (
    SELECT c.*, CASE WHEN shown AND oldest IS NOT NULL THEN (
        SELECT min((SELECT d.due FROM delivery d
                    WHERE d.topic = c.id AND d.state = 0 AND d.priority = level.priority AND d.due <= now()
                    ORDER BY d.due LIMIT 1))
        FROM level WHERE level.topic = c.id
    ) ELSE oldest END AS due
    FROM chosen c
)
SELECT CASE WHEN shown THEN namespace ELSE '_other' END, CASE WHEN shown THEN name ELSE '_other' END,
       sum(ready)::bigint, sum(scheduled)::bigint, sum(in_flight)::bigint, sum(dead)::bigint,
       coalesce(extract(epoch FROM now() - min(due)), 0)::float8
FROM exact GROUP BY 1, 2

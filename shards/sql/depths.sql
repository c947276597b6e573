-- What waits, by topic: the %(most)s topics that matter most, half of them the deepest, the others those with the oldest
-- ready message and with the most dead letters; all the rest together as `_other`. Answers namespace, topic, ready,
-- scheduled, in flight, dead letters, and the age of the oldest ready message. A lease that has just run out is ready.
WITH queued AS (
    SELECT topic, count(*) FILTER (WHERE at <= now()) AS ready,
           count(*) FILTER (WHERE at > now() AND until IS NULL) AS scheduled,
           count(*) FILTER (WHERE at > now() AND until IS NOT NULL) AS in_flight,
           min(due) FILTER (WHERE at <= now()) AS oldest
    FROM (SELECT topic, due, until, coalesce(until, due) AS at FROM delivery) d
    GROUP BY topic
), buried AS (
    SELECT topic, count(*) AS dead FROM dead_letter GROUP BY topic
), counted AS (
    SELECT t.id, t.namespace, t.name, coalesce(q.ready, 0) AS ready, coalesce(q.scheduled, 0) AS scheduled,
           coalesce(q.in_flight, 0) AS in_flight, coalesce(b.dead, 0) AS dead, q.oldest
    FROM topic t LEFT JOIN queued q ON q.topic = t.id LEFT JOIN buried b ON b.topic = t.id
), ranked AS (
    SELECT *, count(*) OVER () AS topics,
           row_number() OVER (ORDER BY ready DESC, in_flight DESC, scheduled DESC, dead DESC, id) AS by_depth,
           row_number() OVER (ORDER BY oldest, id) AS by_age, row_number() OVER (ORDER BY dead DESC, id) AS by_dead
    FROM counted
), chosen AS (
    SELECT *, topics <= %(most)s OR by_depth <= (%(most)s + 1) / 2 OR (by_age <= %(most)s / 4 AND oldest IS NOT NULL)
              OR (by_dead <= %(most)s / 4 AND dead > 0) AS shown
    FROM ranked
)
SELECT CASE WHEN shown THEN namespace ELSE '_other' END, CASE WHEN shown THEN name ELSE '_other' END,
       sum(ready)::bigint, sum(scheduled)::bigint, sum(in_flight)::bigint, sum(dead)::bigint,
       coalesce(extract(epoch FROM now() - min(oldest)), 0)::float8
FROM chosen GROUP BY 1, 2

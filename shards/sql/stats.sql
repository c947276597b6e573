-- One page of the topics of a namespace, or one of them, with their counts from the tally. What is due in the running
-- ten seconds is looked at row by row; a lease that has just run out counts as leased until the lease daemon ends it.
-- The sums are made once, whatever the planner takes the number of topics for.
WITH page AS (
    SELECT id, name FROM topic
    WHERE namespace = %(namespace)s AND (%(topic)s::text IS NULL OR name = %(topic)s) AND name COLLATE "C" > %(after)s
    ORDER BY name COLLATE "C" LIMIT %(limit)s
), sums AS MATERIALIZED (
    SELECT topic, coalesce(sum(waiting) FILTER (WHERE bucket <= bucket(now())), 0) AS come,
           coalesce(sum(waiting) FILTER (WHERE bucket > bucket(now())), 0) AS later, sum(leased) AS leased, sum(dead) AS dead
    FROM (
        SELECT * FROM tally WHERE topic IN (SELECT id FROM page)
        UNION ALL SELECT * FROM tally_delta WHERE topic IN (SELECT id FROM page)
    ) both_parts
    GROUP BY topic
)
SELECT p.name, (coalesce(s.come, 0) - live.soon)::bigint, (coalesce(s.later, 0) + live.soon)::bigint,
       coalesce(s.leased, 0)::bigint, coalesce(s.dead, 0)::bigint,
       (extract(epoch FROM now() - live.oldest) * 1000)::bigint
FROM page p
LEFT JOIN sums s ON s.topic = p.id
CROSS JOIN LATERAL (
    SELECT coalesce(sum((
               SELECT count(*) FROM delivery d
               WHERE d.topic = p.id AND d.state = 0 AND d.priority = level.priority AND d.due > now()
                 AND d.due < to_timestamp(10.0 * (bucket(now()) + 1))
           )), 0) AS soon,
           min((
               SELECT d.due FROM delivery d
               WHERE d.topic = p.id AND d.state = 0 AND d.priority = level.priority AND d.due <= now()
               ORDER BY d.due LIMIT 1
           )) AS oldest
    FROM level WHERE level.topic = p.id
) live
ORDER BY p.name COLLATE "C"

-- The ids at the head of what is ready (or, with %(later)s, of what is scheduled) in a topic, in order, without a lease.
WITH RECURSIVE level(priority) AS (
    SELECT min(priority) FROM delivery WHERE topic = %(topic)s AND state = 0
    UNION ALL
    SELECT (SELECT min(d.priority) FROM delivery d
            WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority > level.priority)
    FROM level WHERE level.priority IS NOT NULL
)
SELECT found.id FROM level
CROSS JOIN LATERAL (
    SELECT d.id, d.due FROM delivery d
    WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority = level.priority
      AND d.due > CASE WHEN %(later)s THEN now() ELSE '-infinity' END
      AND d.due <= CASE WHEN %(later)s THEN 'infinity' ELSE now() END
    ORDER BY d.due, d.id LIMIT %(limit)s
) found
LIMIT %(limit)s

-- When the next message of a topic comes due, by the server's clock, and what that clock says now.
WITH RECURSIVE level(priority) AS (
    SELECT min(priority) FROM delivery WHERE topic = %(topic)s AND state = 0
    UNION ALL
    SELECT (SELECT min(d.priority) FROM delivery d
            WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority > level.priority)
    FROM level WHERE level.priority IS NOT NULL
)
SELECT min(next.due), now() FROM level
CROSS JOIN LATERAL (
    SELECT d.due FROM delivery d
    WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority = level.priority AND d.due > now()
    ORDER BY d.due LIMIT 1
) next

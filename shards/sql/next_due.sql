-- When the next message of a topic comes due, by the server's clock, and what that clock says now. One that has come due
-- this moment counts: the claim before may have been a moment too early for it.
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
    WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority = level.priority
      AND d.due > now() - interval '1 second' AND (d.expiry IS NULL OR d.expiry > now())
    ORDER BY d.due LIMIT 1
) next

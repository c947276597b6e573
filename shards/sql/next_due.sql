-- When the next message of a topic comes due, by the server's clock, and what that clock says now. One that has come due
-- this moment counts: the claim before may have been a moment too early for it.
SELECT min(next.due), now() FROM level
CROSS JOIN LATERAL (
    SELECT d.due FROM delivery d
    WHERE d.topic = level.topic AND d.state = 0 AND d.priority = level.priority
      AND d.due > now() - interval '1 second' AND (d.expiry IS NULL OR d.expiry > now())
    ORDER BY d.due LIMIT 1
) next
WHERE level.topic = %(topic)s

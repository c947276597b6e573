-- Lock the leases that are about to fail: arrays of position, id, topic, epoch (null: the lease that is live). Answers
-- what the decision needs: position, id, epoch, attempts, expiry, max_retries, retry, the server's time,
-- namespace, name and number of the topic.
WITH given AS (
    SELECT * FROM unnest(%(position)s::integer[], %(id)s::bigint[], %(topic)s::integer[], %(epoch)s::integer[])
        AS given (position, id, topic, epoch)
)
SELECT g.position, d.id, d.epoch, d.attempts, d.expiry, m.max_retries, m.retry::text, now(),
       coalesce(t.namespace, '_other'), coalesce(t.name, '_other'), d.topic
FROM given g
JOIN delivery d ON d.id = g.id AND d.topic = g.topic
JOIN message m ON m.id = d.id AND m.day = d.day
LEFT JOIN topic t ON t.id = d.topic
WHERE d.state + 0 = 2 AND d.until > now() AND d.epoch = coalesce(g.epoch, d.epoch)
ORDER BY d.id FOR UPDATE OF d

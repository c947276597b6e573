-- Lock up to %(limit)s leases whose deadline has passed in the last %(back_s)s seconds (null: ever), and up to %(limit)s
-- that wait and are past their ttl since then; not of slots that have left, or are not quite here. Answers as `leased` does, with the deadline (null: it waits) in the place of the position, and at the end
-- the topic.
SELECT * FROM (
    SELECT d.until, d.id, d.epoch, d.attempts, d.expiry, m.max_retries, m.retry::text, now(),
           coalesce(t.namespace, '_other'), coalesce(t.name, '_other'), d.topic
    FROM delivery d JOIN message m ON m.id = d.id AND m.day = d.day LEFT JOIN topic t ON t.id = d.topic
    WHERE d.state > 0 AND d.until <= now() AND d.until > coalesce(now() - %(back_s)s::float8 * interval '1 second', '-infinity')
      AND get_bit((SELECT hidden_slots()), (d.id %% 1024)::integer) = 0
    ORDER BY d.until LIMIT %(limit)s FOR UPDATE OF d SKIP LOCKED
) lapsed
UNION ALL
SELECT * FROM (
    SELECT NULL::timestamptz, d.id, d.epoch, d.attempts, d.expiry, m.max_retries, m.retry::text, now(),
           coalesce(t.namespace, '_other'), coalesce(t.name, '_other'), d.topic
    FROM delivery d JOIN message m ON m.id = d.id AND m.day = d.day LEFT JOIN topic t ON t.id = d.topic
    WHERE d.state = 0 AND d.expiry <= now() AND d.expiry > coalesce(now() - %(back_s)s::float8 * interval '1 second', '-infinity')
      AND get_bit((SELECT hidden_slots()), (d.id %% 1024)::integer) = 0
    ORDER BY d.expiry LIMIT %(limit)s FOR UPDATE OF d SKIP LOCKED
) expired

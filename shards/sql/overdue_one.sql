-- Lock one lease whose deadline has passed. Answers as `overdue` does.
SELECT d.until, d.id, d.epoch, d.attempts, d.expiry, m.max_retries, m.retry::text, now(),
       coalesce(t.namespace, '_other'), coalesce(t.name, '_other'), d.topic
FROM delivery d JOIN message m ON m.id = d.id AND m.day = d.day LEFT JOIN topic t ON t.id = d.topic
WHERE d.id = %(id)s AND d.state > 0 AND d.until <= now() AND get_bit((SELECT hidden_slots()), (d.id %% 1024)::integer) = 0
FOR UPDATE OF d SKIP LOCKED

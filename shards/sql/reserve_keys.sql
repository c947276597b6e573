-- Take idempotency keys that nobody has, or whose dedupe window is over: arrays of namespace, key, id and topic. Answers
-- those that were taken.
INSERT INTO idempotency AS owner (namespace, key, id, topic)
SELECT * FROM unnest(%(namespace)s::text[], %(key)s::text[], %(id)s::bigint[], %(topic)s::integer[])
    AS given (namespace, key, id, topic)
ORDER BY namespace, key
ON CONFLICT (namespace, key) DO UPDATE
SET id = excluded.id, topic = excluded.topic, at = now(), confirmed = false
WHERE owner.at <= now() - %(window_ms)s * interval '1 millisecond'
RETURNING namespace, key

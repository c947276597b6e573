-- Messages by id, with what tells their state. A dead letter shows its own copy: it outlives the log. Not by UNION alone,
-- which would compare the payloads.
WITH wanted AS (
    SELECT id, topic, is_json, payload, headers, traceparent, max_retries, enqueued_at, deliver_after, idempotency_key,
           priority
    FROM message WHERE id = ANY(%(ids)s::bigint[]) AND topic = %(topic)s
    UNION ALL
    SELECT id, topic, is_json, payload, headers, traceparent, max_retries, enqueued_at, deliver_after, idempotency_key,
           priority
    FROM dead_letter WHERE id = ANY(%(ids)s::bigint[]) AND topic = %(topic)s
)
SELECT DISTINCT ON (w.id)
       w.id,
       CASE WHEN d.state = 2 AND d.until > now() THEN 'leased' WHEN d.due > now() THEN 'scheduled'
            WHEN d.id IS NOT NULL THEN 'ready' WHEN l.id IS NOT NULL THEN 'dead'
            ELSE (ARRAY['acked', 'cancelled', 'deleted'])[array_position(ARRAY[8, 11, 12]::smallint[], e.kind)] END,
       coalesce(d.priority, l.priority, w.priority), w.is_json, w.payload, w.headers::text, w.traceparent,
       coalesce(d.attempts, l.attempts, e.attempt), w.max_retries, w.enqueued_at, w.deliver_after, d.due,
       CASE WHEN d.state = 2 AND d.until > now() THEN d.until END, d.expiry, w.idempotency_key,
       l.died_at, l.error, l.reason
FROM wanted w
LEFT JOIN delivery d ON d.id = w.id
LEFT JOIN dead_letter l ON l.id = w.id
LEFT JOIN LATERAL (
    SELECT kind, attempt FROM event e WHERE e.id = w.id AND e.kind IN (8, 11, 12) ORDER BY e.at DESC LIMIT 1
) e ON d.id IS NULL AND l.id IS NULL
ORDER BY w.id, w.enqueued_at

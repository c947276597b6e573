-- Add messages and their deliveries, all or nothing. One array a column; answers nothing.
-- `due` is the server's time unless the message is scheduled: the clocks of API nodes order nothing.
WITH input AS (
    SELECT given.*, asked AS deliver_after, greatest(asked, now()) AS due
    FROM unnest(
        %(id)s::bigint[], %(topic)s::integer[], %(priority)s::smallint[], %(at)s::timestamptz[],
        %(delay_ms)s::bigint[], %(ttl_ms)s::bigint[], %(is_json)s::boolean[], %(payload)s::bytea[], %(headers)s::jsonb[],
        %(traceparent)s::text[], %(max_retries)s::smallint[], %(retry)s::jsonb[]
    ) AS given (id, topic, priority, at, delay_ms, ttl_ms, is_json, payload, headers, traceparent, max_retries, retry),
    LATERAL (SELECT coalesce(at, now() + delay_ms * interval '1 millisecond')) AS wish (asked)
), logged AS (
    INSERT INTO message (id, topic, day, priority, deliver_after, ttl_ms, is_json, payload, payload_bytes, headers,
                         traceparent, max_retries, retry, producer)
    SELECT id, topic, (due AT TIME ZONE 'UTC')::date, priority, deliver_after, ttl_ms, is_json, payload,
           length(payload), headers, traceparent, max_retries, retry, %(producer)s
    FROM input
)
INSERT INTO delivery (id, topic, day, priority, due, expiry)
SELECT id, topic, (due AT TIME ZONE 'UTC')::date, priority, due, due + ttl_ms * interval '1 millisecond'
FROM input

-- Add messages and their deliveries, all or nothing. One array a column. A message with an idempotency key is added
-- only by whoever adds its row to `keyed`; one whose key lies on this shard, too, names the key's namespace in `beside`,
-- and is added if the key is taken here and now. Answers the server's time, and the ids of keyed messages that were added.
-- `due` is the server's time unless the message is scheduled: the clocks of API nodes order nothing. `nudge`, if given,
-- is how many microseconds later, where the ids do not say in which order they came.
WITH given AS (
    SELECT * FROM unnest(
        %(id)s::bigint[], %(topic)s::integer[], %(priority)s::smallint[], %(at)s::timestamptz[],
        %(delay_ms)s::bigint[], %(ttl_ms)s::bigint[], %(is_json)s::boolean[], %(payload)s::bytea[], %(headers)s::jsonb[],
        %(traceparent)s::text[], %(max_retries)s::smallint[], %(retry)s::jsonb[], %(key)s::text[], %(producer)s::text[],
        %(beside)s::text[], %(nudge)s::integer[]
    ) AS given (id, topic, priority, at, delay_ms, ttl_ms, is_json, payload, headers, traceparent, max_retries, retry,
                key, producer, beside, nudge)
), taken AS (
    INSERT INTO idempotency AS owner (namespace, key, id, topic, confirmed)
    SELECT DISTINCT ON (beside, key) beside, key, id, topic, true FROM given WHERE beside IS NOT NULL
    ORDER BY beside, key, id
    ON CONFLICT (namespace, key) DO UPDATE
    SET id = excluded.id, topic = excluded.topic, at = now(), confirmed = true
    WHERE owner.at <= now() - %(window_ms)s * interval '1 millisecond'
    RETURNING id
), admitted AS (
    INSERT INTO keyed (id) SELECT id FROM given WHERE key IS NOT NULL AND beside IS NULL ORDER BY id
    ON CONFLICT DO NOTHING RETURNING id
), added AS (
    SELECT id FROM taken UNION ALL SELECT id FROM admitted
), input AS (
    SELECT given.*, asked AS deliver_after,
           greatest(asked, now(), now() + nudge * interval '1 microsecond') AS due
    FROM given, LATERAL (SELECT coalesce(at, now() + delay_ms * interval '1 millisecond')) AS wish (asked)
    WHERE key IS NULL OR id IN (SELECT id FROM added)
), logged AS (
    INSERT INTO message (id, topic, day, priority, deliver_after, ttl_ms, is_json, payload, payload_bytes, headers,
                         traceparent, max_retries, retry, idempotency_key, producer)
    SELECT id, topic, (due AT TIME ZONE 'UTC')::date, priority, deliver_after, ttl_ms, is_json, payload,
           length(payload), headers, traceparent, max_retries, retry, key, producer
    FROM input
), levels AS (
    INSERT INTO level SELECT * FROM (SELECT DISTINCT topic, priority FROM given) new
    WHERE NOT EXISTS (SELECT FROM level l WHERE l.topic = new.topic AND l.priority = new.priority)
    ORDER BY topic, priority ON CONFLICT DO NOTHING
), tallied AS (
    INSERT INTO tally_delta SELECT topic, bucket(due), count(*), 0, 0 FROM input GROUP BY 1, 2
), queued AS (
    INSERT INTO delivery (id, topic, day, priority, due, expiry)
    SELECT id, topic, (due AT TIME ZONE 'UTC')::date, priority, due, due + ttl_ms * interval '1 millisecond'
    FROM input
)
SELECT now(), ARRAY(SELECT id FROM added)

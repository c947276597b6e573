-- The messages of a day in a range of ids, every column; day, low and high come from us, as literals: COPY takes none else.
SELECT id, txid, enqueued_at, deliver_after, ttl_ms, topic AS topic_id, day, payload_bytes, max_retries, priority, is_json,
       headers::text AS headers, retry::text AS retry, traceparent, producer, idempotency_key, ordering_key,
       concurrency_key, payload
FROM message WHERE day = '%(day)s' AND id BETWEEN %(low)s AND %(high)s

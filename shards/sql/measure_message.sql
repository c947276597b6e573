-- What the messages of a day are, so that a copy can be compared: in parts of about %(most)s bytes by id, for each part
-- and topic the part, topic, rows, lowest and highest id, payload bytes, and the xor and the sum of the rows' digests.
--
-- A digest covers every column: the numbers as eight bytes each, the lengths of the texts, then the texts; null is the
-- lowest number, and as a length -1. pipeline/digests.py makes the same of a file.
WITH digested AS MATERIALIZED (
    SELECT id, topic, payload_bytes, md5(
        int8send(id) || int8send(txid) || timestamptz_send(enqueued_at)
        || coalesce(timestamptz_send(deliver_after), '\x8000000000000000')
        || coalesce(int8send(ttl_ms), '\x8000000000000000') || int8send(topic) || int8send(day - date '2000-01-01')
        || int8send(payload_bytes) || coalesce(int8send(max_retries), '\x8000000000000000') || int8send(priority)
        || int8send(is_json::integer)
        || int8send(coalesce(octet_length(headers::text), -1)) || int8send(coalesce(octet_length(retry::text), -1))
        || int8send(coalesce(octet_length(traceparent), -1)) || int8send(coalesce(octet_length(producer), -1))
        || int8send(coalesce(octet_length(idempotency_key), -1)) || int8send(coalesce(octet_length(ordering_key), -1))
        || int8send(coalesce(octet_length(concurrency_key), -1)) || int8send(octet_length(payload))
        || coalesce(textsend(headers::text), '') || coalesce(textsend(retry::text), '')
        || coalesce(textsend(traceparent), '') || coalesce(textsend(producer), '')
        || coalesce(textsend(idempotency_key), '') || coalesce(textsend(ordering_key), '')
        || coalesce(textsend(concurrency_key), '') || payload
    ) AS digest
    FROM message WHERE day = %(day)s
), parted AS (
    SELECT id, topic, payload_bytes, ('x' || left(digest, 16))::bit(64)::bigint AS high,
           ('x' || right(digest, 8))::bit(32)::bigint AS low,
           sum(payload_bytes + 400) OVER (ORDER BY id) / %(most)s AS part
    FROM digested
)
SELECT part, topic, count(*), min(id), max(id), sum(payload_bytes), bit_xor(high), sum(low)::bigint
FROM parted GROUP BY 1, 2 ORDER BY 1, 2

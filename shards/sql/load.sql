-- The messages of a claim, in its order. The days prune the partitions. Payloads stop where they add up to %(most)s bytes: the rest
-- are null, but for the first.
SELECT m.id, is_json, CASE WHEN n = 1 OR sum(payload_bytes) OVER (ORDER BY n) <= %(most)s THEN payload END,
       headers::text, traceparent, max_retries, enqueued_at, deliver_after
FROM message m JOIN unnest(%(ids)s::bigint[]) WITH ORDINALITY AS given (id, n) ON given.id = m.id
WHERE day = ANY(%(days)s::date[])

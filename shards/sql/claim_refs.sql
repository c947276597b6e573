-- Lease the messages of these refs: arrays of id, epoch, visibility, consumer and traced (null: yes). Only rows that still wait with that
-- epoch, are due by our clock and not past their ttl become leases. Answers the position of each that did, and what its
-- consumer gets to see; payloads stop where they add up to %(most)s bytes: the rest are null, but for the first.
WITH given AS (
    SELECT * FROM unnest(%(id)s::bigint[], %(epoch)s::integer[], %(visibility_ms)s::integer[], %(consumer)s::text[],
                         %(traced)s::boolean[])
        WITH ORDINALITY AS given (id, epoch, visibility_ms, consumer, traced, n)
    ORDER BY id  -- as everybody locks them: refs that were given back after a moment may be with two claimers
), claimed AS (
    UPDATE delivery d
    SET state = 2, epoch = d.epoch + 1, attempts = d.attempts + 1,
        until = now() + g.visibility_ms * interval '1 millisecond'
    FROM given g
    WHERE d.id = g.id AND d.epoch = g.epoch AND d.state + 0 = 0 AND d.due <= now()
      AND (d.expiry IS NULL OR d.expiry > now())
    RETURNING d.*, g.consumer, g.traced, g.n
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer)
    SELECT id, topic, epoch, attempts, CASE WHEN attempts = 1 THEN 2 ELSE 3 END, consumer FROM claimed
    WHERE traced IS NOT FALSE
), tallied AS (
    INSERT INTO tally_delta
    SELECT topic, bucket(due), -count(*), 0, 0 FROM claimed GROUP BY 1, 2
    UNION ALL SELECT topic, 0, 0, count(*), 0 FROM claimed GROUP BY 1
)
SELECT c.n, c.id, c.attempts, c.epoch, c.until, c.priority, c.due, m.is_json, m.payload_bytes,
       CASE WHEN sum(m.payload_bytes) OVER (ORDER BY c.n) <= greatest(m.payload_bytes, %(most)s) THEN m.payload END,
       m.headers::text, m.traceparent, m.max_retries, m.enqueued_at, m.deliver_after
FROM claimed c JOIN message m ON m.id = c.id AND m.day = c.day
ORDER BY c.n

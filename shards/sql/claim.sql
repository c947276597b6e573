-- Lease up to %(limit)s due messages of a topic, in order from a place on (priority, due, id), for several consumers: one
-- of the arrays `visibility_ms` and `consumer` for each message. Answers as `claim_refs` does.
-- A plain index scan would wade through a million future messages of an urgent priority before the first due one of
-- the next, so this goes from priority to priority and stops at the first future row of each.
WITH levels AS (
    SELECT priority FROM level WHERE topic = %(topic)s AND priority >= %(priority)s ORDER BY priority
), head AS (
    SELECT due.id FROM levels
    CROSS JOIN LATERAL (
        SELECT d.id FROM delivery d
        WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority = levels.priority
          AND (d.due, d.id) >= (CASE WHEN levels.priority = %(priority)s THEN %(due)s::timestamptz ELSE '-infinity' END,
                                CASE WHEN levels.priority = %(priority)s THEN %(id)s ELSE 0 END)
          AND d.due <= now() AND (d.expiry IS NULL OR d.expiry > now())
        ORDER BY d.due, d.id LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) due
    LIMIT %(limit)s
), given AS (
    SELECT h.id, g.* FROM (SELECT id, row_number() OVER () AS n FROM head) h
    JOIN unnest(%(visibility_ms)s::integer[], %(consumer)s::text[]) WITH ORDINALITY AS g (visibility_ms, consumer, n)
        ON g.n = h.n
), claimed AS (
    UPDATE delivery d
    SET state = 2, epoch = d.epoch + 1, attempts = d.attempts + 1,
        until = now() + g.visibility_ms * interval '1 millisecond'
    FROM given g WHERE d.id = g.id
    RETURNING d.*, g.consumer, g.n
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer)
    SELECT id, topic, epoch, attempts, CASE WHEN attempts = 1 THEN 2 ELSE 3 END, consumer FROM claimed
    WHERE %(traced)s
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

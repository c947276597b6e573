-- Lease the first due messages of topics, in order from a place on (priority, due, id). Arrays with one of each for a topic:
-- topic, priority, due, id, wanted (how many), start (how many were wanted by those before it) and traced; with one of
-- each for a wanted message: visibility and consumer. No topic may stand there twice: both would lock the same rows.
-- Answers as `claim_refs` does.
-- A plain index scan would wade through a million future messages of an urgent priority before the first due one of
-- the next, so this goes from priority to priority and stops at the first future row of each.
-- `listed`: of an array the planner expects a few rows, and looks each up; of `head` it would expect a table full.
WITH asked AS (
    SELECT * FROM unnest(%(topic)s::integer[], %(priority)s::integer[], %(due)s::timestamptz[], %(id)s::bigint[],
                         %(wanted)s::integer[], %(start)s::integer[], %(traced)s::boolean[])
        AS asked (topic, priority, due, id, wanted, start, traced)
), head AS MATERIALIZED (
    SELECT asked.start, asked.traced, first.* FROM asked
    CROSS JOIN LATERAL (
        SELECT waiting.* FROM (
            SELECT priority FROM level WHERE topic = asked.topic AND priority >= asked.priority ORDER BY priority
        ) levels
        CROSS JOIN LATERAL (
            SELECT d.id, d.priority, d.due FROM delivery d
            WHERE d.topic = asked.topic AND d.state = 0 AND d.priority = levels.priority
              AND (d.due, d.id) >= (CASE WHEN levels.priority = asked.priority THEN asked.due ELSE '-infinity' END,
                                    CASE WHEN levels.priority = asked.priority THEN asked.id ELSE 0 END)
              AND d.due <= now() AND (d.expiry IS NULL OR d.expiry > now())
            ORDER BY d.due, d.id LIMIT asked.wanted
            FOR UPDATE SKIP LOCKED
        ) waiting
        LIMIT asked.wanted
    ) first
), listed AS MATERIALIZED (
    SELECT array_agg(id) AS ids, array_agg(n) AS ns, array_agg(traced) AS traces FROM (
        SELECT id, traced, start + row_number() OVER (PARTITION BY start ORDER BY priority, due, id) AS n FROM head
    ) h
), given AS (
    SELECT u.id, u.traced, g.* FROM listed
    CROSS JOIN unnest(listed.ids, listed.ns, listed.traces) AS u (id, n, traced)
    JOIN unnest(%(visibility_ms)s::integer[], %(consumer)s::text[]) WITH ORDINALITY AS g (visibility_ms, consumer, n)
        ON g.n = u.n
), claimed AS (
    UPDATE delivery d
    SET state = 2, epoch = d.epoch + 1, attempts = d.attempts + 1,
        until = now() + g.visibility_ms * interval '1 millisecond'
    FROM given g WHERE d.id = g.id
    RETURNING d.*, g.consumer, g.traced, g.n
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer)
    SELECT id, topic, epoch, attempts, CASE WHEN attempts = 1 THEN 2 ELSE 3 END, consumer FROM claimed
    WHERE traced
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

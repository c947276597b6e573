-- Lease due messages of a topic, in order: the first %(low)s[i]+1 to %(high)s[i] of them as consumer i wants them. Answers id, day,
-- attempts, epoch, until, priority, due.
-- A plain index scan would wade through a million future messages of an urgent priority before the first due one of
-- the next, so this walks the distinct priorities and stops at the first future row of each.
WITH RECURSIVE level(priority) AS (
    SELECT min(priority) FROM delivery WHERE topic = %(topic)s AND state = 0
    UNION ALL
    SELECT (SELECT min(d.priority) FROM delivery d
            WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority > level.priority)
    FROM level WHERE level.priority IS NOT NULL
), head AS (
    SELECT due.id FROM level
    CROSS JOIN LATERAL (
        SELECT d.id FROM delivery d
        WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority = level.priority AND d.due <= now()
          AND (d.expiry IS NULL OR d.expiry > now())
        ORDER BY d.due, d.id LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) due
    LIMIT %(limit)s
), wanted AS (
    SELECT * FROM unnest(%(low)s::integer[], %(high)s::integer[], %(visibility_ms)s::integer[], %(consumer)s::text[])
        AS wanted (low, high, visibility_ms, consumer)
), given AS (
    SELECT h.id, w.visibility_ms, w.consumer
    FROM (SELECT id, row_number() OVER () AS n FROM head) h JOIN wanted w ON h.n > w.low AND h.n <= w.high
), claimed AS (
    UPDATE delivery d
    SET state = 2, epoch = d.epoch + 1, attempts = d.attempts + 1,
        until = now() + g.visibility_ms * interval '1 millisecond'
    FROM given g WHERE d.id = g.id
    RETURNING d.*, g.consumer
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer)
    SELECT id, topic, epoch, attempts, CASE WHEN attempts = 1 THEN 2 ELSE 3 END, consumer FROM claimed
)
SELECT id, day, attempts, epoch, until, priority, due FROM claimed

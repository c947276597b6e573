-- Up to %(limit)s messages of a topic that wait, due or not, in order from behind a place (priority, due, id). Answers id,
-- priority, due, whether it was enqueued by %(started)s (null: now), and the server's time.
WITH levels AS (
    SELECT priority FROM level WHERE topic = %(topic)s AND priority >= %(priority)s ORDER BY priority
)
SELECT w.id, w.priority, w.due, coalesce(m.enqueued_at <= coalesce(%(started)s::timestamptz, now()), true), now()
FROM (
    SELECT waiting.* FROM levels
    CROSS JOIN LATERAL (
        SELECT d.id, d.priority, d.due, d.day FROM delivery d
        WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority = levels.priority
          AND (d.due, d.id) > (CASE WHEN levels.priority = %(priority)s THEN %(due)s::timestamptz ELSE '-infinity' END,
                               CASE WHEN levels.priority = %(priority)s THEN %(id)s ELSE 0 END)
        ORDER BY d.due, d.id LIMIT %(limit)s
    ) waiting
    ORDER BY waiting.priority, waiting.due, waiting.id LIMIT %(limit)s
) w
LEFT JOIN message m ON m.id = w.id AND m.day = w.day
ORDER BY w.priority, w.due, w.id

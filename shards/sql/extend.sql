-- Move deadlines: arrays as for `ack`, and the milliseconds from now. Answers position and new deadline of each; a lease
-- that is named twice is moved once, and told to both.
WITH given AS (
    SELECT * FROM unnest(%(position)s::integer[], %(id)s::bigint[], %(topic)s::integer[], %(epoch)s::integer[],
                         %(visibility_ms)s::integer[]) AS given (position, id, topic, epoch, visibility_ms)
), locked AS (
    SELECT g.visibility_ms, d.id FROM given g JOIN delivery d ON d.id = g.id AND d.topic = g.topic
    WHERE d.state + 0 = 2 AND d.until > now() AND d.epoch = coalesce(g.epoch, d.epoch)
    ORDER BY d.id FOR UPDATE OF d
), moved AS (
    UPDATE delivery d SET until = now() + l.visibility_ms * interval '1 millisecond'
    FROM locked l WHERE d.id = l.id
    RETURNING d.id, d.topic, d.epoch, d.until
)
SELECT g.position, m.until FROM moved m
JOIN given g ON g.id = m.id AND g.topic = m.topic AND m.epoch = coalesce(g.epoch, m.epoch)

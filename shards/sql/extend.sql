-- Move deadlines: arrays as for `ack`, and the milliseconds from now. Answers position and new deadline of each.
WITH given AS (
    SELECT * FROM unnest(%(position)s::integer[], %(id)s::bigint[], %(topic)s::integer[], %(epoch)s::integer[],
                         %(visibility_ms)s::integer[]) AS given (position, id, topic, epoch, visibility_ms)
), locked AS (
    SELECT d.id FROM delivery d JOIN given g ON g.id = d.id AND g.topic = d.topic WHERE d.id = ANY(%(id)s)
    ORDER BY d.id FOR UPDATE OF d
)
UPDATE delivery d SET until = now() + g.visibility_ms * interval '1 millisecond'
FROM locked l, given g
WHERE d.id = l.id AND d.id = g.id AND d.id = ANY(%(id)s) AND d.topic = g.topic AND d.state = 2 AND d.until > now()
  AND d.epoch = coalesce(g.epoch, d.epoch)
RETURNING g.position, d.until

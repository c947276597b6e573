-- Give leases back to their old place without spending an attempt: arrays as for `ack`. Answers the position of each
-- that was, its topic and ref.
WITH given AS (
    SELECT * FROM unnest(%(position)s::integer[], %(id)s::bigint[], %(topic)s::integer[], %(epoch)s::integer[],
                         %(consumer)s::text[]) AS given (position, id, topic, epoch, consumer)
), locked AS (
    SELECT g.position, g.consumer, d.id FROM given g JOIN delivery d ON d.id = g.id AND d.topic = g.topic
    WHERE d.state + 0 = 2 AND d.until > now() AND d.epoch = coalesce(g.epoch, d.epoch)
    ORDER BY d.id FOR UPDATE OF d
), back AS (
    UPDATE delivery d SET state = 0, until = NULL, attempts = d.attempts - 1
    FROM locked l WHERE d.id = l.id
    RETURNING l.position, l.consumer, d.id, d.topic, d.epoch, d.attempts, d.priority, d.due, d.day
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer)
    SELECT id, topic, epoch, attempts + 1, 6, consumer FROM back
), tallied AS (
    INSERT INTO tally_delta
    SELECT topic, bucket(due), count(*), 0, 0 FROM back GROUP BY 1, 2
    UNION ALL SELECT topic, 0, 0, -count(*), 0 FROM back GROUP BY 1
)
SELECT position, topic, ref(priority, due, id, epoch, day) FROM back

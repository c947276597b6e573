-- Settle leases: arrays of position, id, topic, epoch (null: the lease that is live) and consumer. Answers of
-- each that was settled the position, and for how many seconds it had been due.
WITH given AS (
    SELECT * FROM unnest(%(position)s::integer[], %(id)s::bigint[], %(topic)s::integer[], %(epoch)s::integer[],
                         %(consumer)s::text[]) AS given (position, id, topic, epoch, consumer)
), locked AS (
    SELECT d.id FROM delivery d JOIN given g ON g.id = d.id AND g.topic = d.topic WHERE d.id = ANY(%(id)s)
    ORDER BY d.id FOR UPDATE OF d  -- in one order, or two batches of the same leases would wait for each other
), gone AS (
    DELETE FROM delivery d USING locked l, given g
    WHERE d.id = l.id AND d.id = g.id AND d.id = ANY(%(id)s) AND d.topic = g.topic AND d.state = 2 AND d.until > now()
      AND d.epoch = coalesce(g.epoch, d.epoch)
    RETURNING g.position, g.consumer, d.id, d.topic, d.epoch, d.attempts, d.due
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer)
    SELECT id, topic, epoch, attempts, 8, consumer FROM gone
), tallied AS (
    INSERT INTO tally_delta SELECT topic, 0, 0, -count(*), 0 FROM gone GROUP BY 1
)
SELECT position, extract(epoch FROM now() - due)::float8 FROM gone

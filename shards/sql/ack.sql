-- Settle leases: arrays of position, id, topic, epoch (null: the lease that is live) and consumer. Answers of
-- each that was settled the position, and for how many seconds it had been due.
--
-- `state + 0` here and elsewhere: the rows are to be found by their ids. The index of all leases looks short to the
-- planner, and under a snapshot that is held it is full of dead ones.
WITH given AS (
    SELECT * FROM unnest(%(position)s::integer[], %(id)s::bigint[], %(topic)s::integer[], %(epoch)s::integer[],
                         %(consumer)s::text[]) AS given (position, id, topic, epoch, consumer)
), locked AS (
    SELECT g.position, g.consumer, d.id FROM given g JOIN delivery d ON d.id = g.id AND d.topic = g.topic
    WHERE d.state + 0 = 2 AND d.until > now() AND d.epoch = coalesce(g.epoch, d.epoch)
    ORDER BY d.id FOR UPDATE OF d  -- in one order, or two batches of the same leases would wait for each other
), gone AS (
    DELETE FROM delivery d USING locked l WHERE d.id = l.id
    RETURNING l.position, l.consumer, d.id, d.topic, d.epoch, d.attempts, d.due
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer)
    SELECT id, topic, epoch, attempts, 8, consumer FROM gone
), tallied AS (
    INSERT INTO tally_delta SELECT topic, 0, 0, -count(*), 0 FROM gone GROUP BY 1
)
SELECT position, extract(epoch FROM now() - due)::float8 FROM gone

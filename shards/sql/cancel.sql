-- Cancel a message that waits. Answers cancelled, leased, or nothing where there is none.
WITH found AS (
    SELECT id, state = 2 AND until > now() AS leased FROM delivery
    WHERE id = %(id)s AND topic = %(topic)s FOR UPDATE
), gone AS (
    DELETE FROM delivery d USING found f WHERE d.id = f.id AND NOT f.leased
    RETURNING d.id, d.topic, d.epoch, d.attempts, d.state, d.due
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer)
    SELECT id, topic, epoch, attempts, 11, %(consumer)s FROM gone
), tallied AS (
    INSERT INTO tally_delta
    SELECT topic, CASE state WHEN 0 THEN bucket(due) ELSE 0 END, -(state = 0)::integer, -(state > 0)::integer, 0
    FROM gone
)
SELECT leased FROM found

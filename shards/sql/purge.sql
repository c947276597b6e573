-- Cancel messages by id that wait; what somebody holds, or is gone, is skipped. Answers the ids.
WITH locked AS (
    SELECT d.id FROM delivery d WHERE d.id = ANY(%(ids)s::bigint[]) AND d.topic = %(topic)s AND d.state + 0 = 0
    ORDER BY d.id FOR UPDATE
), gone AS (
    DELETE FROM delivery d USING locked l WHERE d.id = l.id RETURNING d.id, d.topic, d.epoch, d.attempts, d.due
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer, detail)
    SELECT id, topic, epoch, attempts, 11, %(consumer)s, %(detail)s FROM gone
), tallied AS (
    INSERT INTO tally_delta SELECT topic, bucket(due), -count(*), 0, 0 FROM gone GROUP BY 1, 2
)
SELECT id FROM gone

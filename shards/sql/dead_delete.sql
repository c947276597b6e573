-- Delete dead letters by id; ids that are not dead are skipped, and what died after %(by)s (null: never) is left. The
-- event says %(detail)s. Answers the ids.
WITH gone AS (
    DELETE FROM dead_letter
    WHERE topic = %(topic)s AND id = ANY(%(ids)s::bigint[]) AND died_at <= coalesce(%(by)s::timestamptz, 'infinity')
    RETURNING id, topic, epoch, attempts
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer, detail)
    SELECT id, topic, epoch, attempts, 12, %(consumer)s, %(detail)s FROM gone
), tallied AS (
    INSERT INTO tally_delta SELECT topic, 0, 0, 0, -count(*) FROM gone GROUP BY 1
)
SELECT id FROM gone

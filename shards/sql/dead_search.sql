-- Look at up to %(portion)s dead letters of each of some topics, from those that died last downward, each below a place of
-- its own: arrays of topic, before and before_id. Answers for each topic that has any: its number, how many were looked at
-- and the lowest place among them; and beside it, a row for each that fits, what a list shows: id, topic, attempts, error,
-- reason, died_at (all null: nothing fits). The case of ASCII letters does not matter; a payload with a NUL is no text.
-- `phrase` comes as the bytes of its UTF-8 read as Latin 1, in lower case: so any payload can be compared.
-- Rows are compared, and not each column, so that only the index of the order fits: see `dead_page`.
WITH seen AS MATERIALIZED (
    SELECT g.topic, t.name, l.id, l.died_at, l.attempts, l.reason, f.fits, CASE WHEN f.fits THEN l.error END AS error
    FROM unnest(%(topic)s::integer[], %(before)s::timestamptz[], %(before_id)s::bigint[]) AS g (topic, before, before_id)
    JOIN topic t ON t.id = g.topic AND t.namespace = %(namespace)s
    CROSS JOIN LATERAL (
        SELECT d.* FROM dead_letter d
        WHERE (d.topic, d.died_at, d.id) < (g.topic, g.before, g.before_id)
          AND (d.topic, d.died_at, d.id) >= (g.topic, coalesce(%(since)s::timestamptz, '-infinity'), 0)
        ORDER BY d.topic DESC, d.died_at DESC, d.id DESC LIMIT %(portion)s
    ) l
    CROSS JOIN LATERAL (
        SELECT (%(id)s::bigint IS NULL OR l.id = %(id)s)
           AND (%(reason)s::text IS NULL OR l.reason = %(reason)s)
           AND (%(min_attempts)s::integer IS NULL OR l.attempts >= %(min_attempts)s)
           AND (%(max_attempts)s::integer IS NULL OR l.attempts <= %(max_attempts)s)
           AND (%(error)s::text IS NULL OR position(%(error)s IN lower(l.error COLLATE "C")) > 0)
           AND (%(text)s::text IS NULL OR position(%(text)s IN lower(l.error COLLATE "C")) > 0
                OR CASE WHEN position('\x00'::bytea IN l.payload) > 0 THEN false
                        ELSE position(%(phrase)s::text IN lower(convert_from(l.payload, 'LATIN1') COLLATE "C")) > 0 END)
        OFFSET 0
    ) f (fits)
), looked AS (
    SELECT DISTINCT ON (topic) topic, count(*) OVER (PARTITION BY topic) AS seen, died_at, id
    FROM seen ORDER BY topic, died_at, id
)
SELECT looked.*, s.id, s.name, s.attempts, s.error, s.reason, s.died_at
FROM looked LEFT JOIN seen s ON s.topic = looked.topic AND s.fits

-- Look at up to %(portion)s dead letters of a namespace, or of one of its topics, from those that died last downward,
-- below the place (died_at, id). Answers how many were looked at (down to the last that is answered, where that are
-- %(limit)s), the lowest place that was looked at, and then what fits: id, topic, priority, is_json, payload, headers,
-- attempts, error, reason, enqueued_at, died_at (all null: nothing fits). Without %(whole)s payload and headers are left
-- out. The case of ASCII letters does not matter; a payload with a NUL is no text. `phrase` comes as the bytes of its
-- UTF-8 read as Latin 1, in lower case: so any payload can be compared.
-- Rows are compared, and not each column, so that only the index of a topic's deaths fits: see `dead_page`.
WITH seen AS MATERIALIZED (
    SELECT l.id, l.died_at, t.name
    FROM topic t
    CROSS JOIN LATERAL (
        SELECT d.id, d.died_at FROM dead_letter d
        WHERE (d.topic, d.died_at) <= (t.id, %(before)s::timestamptz)
          AND (d.topic, d.died_at) >= (t.id, coalesce(%(since)s::timestamptz, '-infinity'))
          AND (d.died_at, d.id) < (%(before)s::timestamptz, %(before_id)s::bigint)
        ORDER BY d.topic DESC, d.died_at DESC, d.id DESC LIMIT %(portion)s
    ) l
    WHERE t.namespace = %(namespace)s AND (%(topic)s::text IS NULL OR t.name = %(topic)s)
    ORDER BY l.died_at DESC, l.id DESC LIMIT %(portion)s
), found AS (
    SELECT d.id, s.name, d.priority, d.is_json, CASE WHEN %(whole)s THEN d.payload END AS payload,
           CASE WHEN %(whole)s THEN d.headers::text END AS headers, d.attempts, d.error, d.reason, d.enqueued_at, d.died_at
    FROM seen s JOIN dead_letter d ON d.id = s.id
    WHERE (%(id)s::bigint IS NULL OR d.id = %(id)s)
      AND (%(reason)s::text IS NULL OR d.reason = %(reason)s)
      AND (%(min_attempts)s::integer IS NULL OR d.attempts >= %(min_attempts)s)
      AND (%(max_attempts)s::integer IS NULL OR d.attempts <= %(max_attempts)s)
      AND (%(error)s::text IS NULL OR position(%(error)s IN lower(d.error COLLATE "C")) > 0)
      AND (%(text)s::text IS NULL OR position(%(text)s IN lower(d.error COLLATE "C")) > 0
           OR CASE WHEN position('\x00'::bytea IN d.payload) > 0 THEN false
                   ELSE position(%(phrase)s::text IN lower(convert_from(d.payload, 'LATIN1') COLLATE "C")) > 0 END)
    ORDER BY d.died_at DESC, d.id DESC LIMIT %(limit)s
), last_of_all AS (
    SELECT died_at, id FROM found ORDER BY died_at DESC, id DESC OFFSET %(limit)s - 1 LIMIT 1
), looked AS (
    SELECT count(*) AS seen FROM seen WHERE (died_at, id) >= (SELECT died_at, id FROM last_of_all)
        OR NOT EXISTS (SELECT FROM last_of_all)
)
SELECT looked.seen, lowest.died_at, lowest.id, found.* FROM looked
LEFT JOIN (SELECT died_at, id FROM seen ORDER BY died_at, id LIMIT 1) lowest ON true
LEFT JOIN found ON true
ORDER BY found.died_at DESC, found.id DESC

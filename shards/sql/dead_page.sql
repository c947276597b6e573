-- One page of dead letters of a namespace, or of one of its topics, ascending by id. Rows are compared, and not each
-- column, so that only the index of a topic fits: by the primary key, a topic with few letters is a walk through all.
SELECT d.id, t.name, d.priority, d.is_json, d.payload, d.headers::text, d.attempts, d.error, d.reason, d.enqueued_at,
       d.died_at
FROM topic t
CROSS JOIN LATERAL (
    SELECT * FROM dead_letter l WHERE (l.topic, l.id) > (t.id, %(after)s) AND (l.topic, l.id) < (t.id + 1, 0)
    ORDER BY l.topic, l.id LIMIT %(limit)s
) d
WHERE t.namespace = %(namespace)s AND (%(topic)s::text IS NULL OR t.name = %(topic)s)
ORDER BY d.id LIMIT %(limit)s

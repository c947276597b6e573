-- One page of dead letters of a namespace, or of one of its topics, ascending by id.
SELECT d.id, t.name, d.priority, d.is_json, d.payload, d.headers::text, d.attempts, d.error, d.reason, d.enqueued_at,
       d.died_at
FROM topic t
CROSS JOIN LATERAL (
    SELECT * FROM dead_letter l WHERE l.topic = t.id AND l.id > %(after)s ORDER BY l.id LIMIT %(limit)s
) d
WHERE t.namespace = %(namespace)s AND (%(topic)s::text IS NULL OR t.name = %(topic)s)
ORDER BY d.id LIMIT %(limit)s

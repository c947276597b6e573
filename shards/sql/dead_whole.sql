-- Dead letters by id, with all that a client sees, as `dead_page` answers them.
SELECT d.id, t.name, d.priority, d.is_json, d.payload, d.headers::text, d.attempts, d.error, d.reason, d.enqueued_at,
       d.died_at
FROM dead_letter d JOIN topic t ON t.id = d.topic WHERE d.id = ANY(%(ids)s::bigint[]) AND t.namespace = %(namespace)s

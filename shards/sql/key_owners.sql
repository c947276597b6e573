-- Who has these idempotency keys: namespace, key, id, topic, whether its message is known to be there, and for how many
-- seconds it has had the key.
SELECT i.namespace, i.key, i.id, i.topic, i.confirmed, extract(epoch FROM clock_timestamp() - i.at)::float8
FROM unnest(%(namespace)s::text[], %(key)s::text[]) AS given (namespace, key)
JOIN idempotency i ON i.namespace = given.namespace AND i.key = given.key

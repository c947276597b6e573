-- Who has these idempotency keys: namespace, key, id, topic, and whether its message is known to be there.
SELECT i.namespace, i.key, i.id, i.topic, i.confirmed
FROM unnest(%(namespace)s::text[], %(key)s::text[]) AS given (namespace, key)
JOIN idempotency i ON i.namespace = given.namespace AND i.key = given.key

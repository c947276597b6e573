-- Note that the messages of these keys are there.
UPDATE idempotency i SET confirmed = true
FROM unnest(%(namespace)s::text[], %(key)s::text[], %(id)s::bigint[]) AS given (namespace, key, id)
WHERE i.namespace = given.namespace AND i.key = given.key AND i.id = given.id AND NOT i.confirmed

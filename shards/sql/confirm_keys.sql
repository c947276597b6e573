-- Note that the messages of these keys are there. Locked in the order in which `reserve_keys` locks them.
WITH given AS (
    SELECT * FROM unnest(%(namespace)s::text[], %(key)s::text[], %(id)s::bigint[]) AS given (namespace, key, id)
), locked AS (
    SELECT i.namespace, i.key FROM idempotency i
    JOIN given g ON g.namespace = i.namespace AND g.key = i.key AND g.id = i.id
    WHERE NOT i.confirmed ORDER BY i.namespace, i.key FOR UPDATE OF i
)
UPDATE idempotency i SET confirmed = true FROM locked l WHERE i.namespace = l.namespace AND i.key = l.key

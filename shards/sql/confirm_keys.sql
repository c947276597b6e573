-- Note that the messages of these keys are there. Locked in the order in which `reserve_keys` locks them, each by its
-- index: a planner that knows how few are unconfirmed would compare all of these with each of the given ones.
WITH given AS (
    SELECT * FROM unnest(%(namespace)s::text[], %(key)s::text[], %(id)s::bigint[]) AS given (namespace, key, id)
    ORDER BY namespace, key
)
UPDATE idempotency SET confirmed = true WHERE ctid = ANY(ARRAY(
    SELECT locked.ctid FROM given, LATERAL (
        SELECT i.ctid FROM idempotency i
        WHERE i.namespace = given.namespace AND i.key = given.key AND i.id = given.id AND NOT i.confirmed FOR UPDATE
    ) locked
))

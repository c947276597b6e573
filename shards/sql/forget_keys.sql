-- Drop up to %(limit)s idempotency keys whose window is over for a day, and as many rows that admitted their messages.
-- Answers how many.
WITH keys AS (
    DELETE FROM idempotency WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM idempotency
        WHERE at < now() - %(window_ms)s * interval '1 millisecond' - interval '1 day' LIMIT %(limit)s
    )) RETURNING 1
), admitted AS (
    DELETE FROM keyed WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM keyed
        WHERE at < now() - %(window_ms)s * interval '1 millisecond' - interval '1 day' LIMIT %(limit)s
    )) RETURNING 1
)
SELECT (SELECT count(*) FROM keys) + (SELECT count(*) FROM admitted)

-- When a message that was nacked, moved or replayed is due next: a repeated request is answered from it.
ALTER TABLE event ADD COLUMN IF NOT EXISTS due timestamptz;

-- Messages with an idempotency key, on their own shard: whoever adds the row adds the message, once. A fenced row says
-- that the id will never have a message, because its key went to another topic after its first owner died.
CREATE TABLE IF NOT EXISTS keyed (
    id     bigint      NOT NULL PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    fenced boolean     NOT NULL DEFAULT false
);
CREATE INDEX IF NOT EXISTS keyed_at ON keyed USING brin (at);
ALTER TABLE idempotency DROP COLUMN IF EXISTS day;

-- A place in the order as text that sorts like it, and all that a claim needs to know: priority, due, id; epoch, day.
-- The head of a topic's order lives in Redis as such texts. (`mqueue/hot/refs.py` reads and writes the same.)
CREATE OR REPLACE FUNCTION ref(priority smallint, due timestamptz, id bigint, epoch integer, day date) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT lpad(to_hex(priority::integer), 2, '0')
        || lpad(to_hex((extract(epoch FROM due) * 1000000)::bigint), 14, '0')
        || lpad(to_hex(id), 14, '0') || lpad(to_hex(epoch), 8, '0') || lpad(to_hex(day - date '2000-01-01'), 5, '0')
$$;

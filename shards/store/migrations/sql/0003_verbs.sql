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

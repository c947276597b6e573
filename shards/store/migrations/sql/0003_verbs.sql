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

-- How many messages of a topic wait, are leased and are dead. Each statement that changes that adds a row to
-- `tally_delta`, which nobody updates; the flusher folds them into `tally` now and then, and a count is the sum of both.
-- What waits is counted by the ten seconds in which it is due, so that ready and scheduled need no touch when they
-- change places; the rest is under bucket 0.
CREATE TABLE IF NOT EXISTS tally (
    topic   integer NOT NULL,
    bucket  integer NOT NULL,
    waiting bigint  NOT NULL,
    leased  bigint  NOT NULL,
    dead    bigint  NOT NULL,
    PRIMARY KEY (topic, bucket)
);
CREATE TABLE IF NOT EXISTS tally_delta (LIKE tally);

CREATE OR REPLACE FUNCTION bucket(due timestamptz) RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT floor(extract(epoch FROM due) / 10)::integer
$$;
INSERT INTO tally
SELECT topic, bucket, sum(waiting), sum(leased), sum(dead) FROM (
    SELECT topic, CASE state WHEN 0 THEN bucket(due) ELSE 0 END AS bucket,
           (state = 0)::integer AS waiting, (state > 0)::integer AS leased, 0 AS dead FROM delivery
    UNION ALL SELECT topic, 0, 0, 0, 1 FROM dead_letter
) counted GROUP BY 1, 2 ON CONFLICT DO NOTHING;

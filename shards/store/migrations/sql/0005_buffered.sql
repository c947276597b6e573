-- How far the log of each writer of buffered messages is committed here: a chain, whose next link names the one before.
-- It is added in the transaction that commits the records, so none is committed twice. Rows are added and never
-- changed: one that is, slows down under a transaction that is held open.
CREATE TABLE IF NOT EXISTS buffer_mark (
    writer   uuid        NOT NULL,
    previous bigint      NOT NULL,
    reached  bigint      NOT NULL CHECK (reached > previous),
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (writer, previous)
);
CREATE INDEX IF NOT EXISTS buffer_mark_at ON buffer_mark USING brin (at);

-- Records that could not be committed, and why: set aside, so that they hold up nothing and are not lost.
CREATE TABLE IF NOT EXISTS buffer_refused (
    writer uuid        NOT NULL,
    number bigint      NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    error  text        NOT NULL,
    record bytea       NOT NULL,
    PRIMARY KEY (writer, number)
);

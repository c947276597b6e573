-- What each topic has used, by day in UTC: a sum of rows of `message` and `event`, which never change. `usage_mark` says
-- up to which transaction they are in it: all before it had ended, so each row is counted once, whenever it committed.
CREATE TABLE IF NOT EXISTS usage (
    topic          integer NOT NULL,
    day            date    NOT NULL,
    enqueued       bigint  NOT NULL DEFAULT 0,
    enqueued_bytes bigint  NOT NULL DEFAULT 0,
    delivered      bigint  NOT NULL DEFAULT 0,
    acked          bigint  NOT NULL DEFAULT 0,
    retried        bigint  NOT NULL DEFAULT 0,
    dead           bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, day)
);
CREATE TABLE IF NOT EXISTS usage_mark (
    singleton boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    txid      bigint      NOT NULL,
    at        timestamptz NOT NULL DEFAULT now()
);
INSERT INTO usage_mark (txid) VALUES (pg_snapshot_xmin(pg_current_snapshot())::text::bigint) ON CONFLICT DO NOTHING;

-- The shard's schema. Columns are ordered by alignment, widest first: rows are what a claim rewrites.

-- Names of topics, so that rows carry four bytes. The number comes from the control database and is the same on
-- every shard, so a topic that moves keeps it.
CREATE TABLE topic (
    id        integer PRIMARY KEY,
    namespace text NOT NULL,
    name      text NOT NULL,
    UNIQUE (namespace, name)
);

-- The log: one immutable row a message, kept until retention ends. `day` is that of greatest(enqueued, due), so a
-- message scheduled far ahead lies in the partition of its day. `txid` lets readers take what committed between two
-- snapshots: whoever pages by id misses rows that commit late.
CREATE TABLE message (
    id              bigint      NOT NULL,
    txid            bigint      NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    enqueued_at     timestamptz NOT NULL DEFAULT now(),
    deliver_after   timestamptz,
    ttl_ms          bigint,
    topic           integer     NOT NULL,
    day             date        NOT NULL,
    payload_bytes   integer     NOT NULL,
    max_retries     smallint,               -- null: the topic's
    priority        smallint    NOT NULL CHECK (priority BETWEEN 0 AND 255),
    is_json         boolean     NOT NULL,   -- sent as `body`, comes back as `body`
    payload         bytea       NOT NULL,
    headers         jsonb,
    retry           jsonb,                  -- null: the topic's
    traceparent     text,
    producer        text,
    idempotency_key text,
    ordering_key    text,
    concurrency_key text,
    PRIMARY KEY (id, day)
) PARTITION BY RANGE (day);
CREATE INDEX message_txid ON message USING brin (txid);

-- The queue: one narrow row a message that is not settled yet.
-- state: 0 waits for `due`, 1 held by a prefetcher until `until`, 2 leased to a consumer until `until`.
-- Each hand-out raises `epoch`; whoever settles names the epoch that he holds.
CREATE TABLE delivery (
    id       bigint      NOT NULL PRIMARY KEY,
    due      timestamptz NOT NULL,
    until    timestamptz,
    expiry   timestamptz,
    topic    integer     NOT NULL,
    day      date        NOT NULL,
    epoch    integer     NOT NULL DEFAULT 0,
    attempts smallint    NOT NULL DEFAULT 0,
    priority smallint    NOT NULL,
    state    smallint    NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2),
    CHECK ((state = 0) = (until IS NULL))
);
CREATE INDEX delivery_waiting ON delivery (topic, priority, due, id) WHERE state = 0;
CREATE INDEX delivery_until ON delivery (until) WHERE state > 0;
CREATE INDEX delivery_expiry ON delivery (expiry) WHERE expiry IS NOT NULL;

-- A dead letter owns a copy of its message: it outlives the log's retention. A replay goes on above `epoch`.
CREATE TABLE dead_letter (
    id              bigint      NOT NULL PRIMARY KEY,
    died_at         timestamptz NOT NULL DEFAULT now(),
    enqueued_at     timestamptz NOT NULL,
    deliver_after   timestamptz,
    ttl_ms          bigint,
    topic           integer     NOT NULL,
    day             date        NOT NULL,
    epoch           integer     NOT NULL,
    payload_bytes   integer     NOT NULL,
    attempts        smallint    NOT NULL,
    max_retries     smallint,
    priority        smallint    NOT NULL,
    is_json         boolean     NOT NULL,
    payload         bytea       NOT NULL,
    headers         jsonb,
    retry           jsonb,
    traceparent     text,
    producer        text,
    idempotency_key text,
    ordering_key    text,
    concurrency_key text,
    error           text,
    reason          text        NOT NULL CHECK (reason IN ('max_retries', 'expired', 'rejected'))
);
CREATE INDEX dead_letter_topic ON dead_letter (topic, id);
CREATE INDEX dead_letter_died_at ON dead_letter (topic, died_at);

-- Who owns an idempotency key. The row lies on the shard of slot(namespace, key), its message perhaps on another.
CREATE TABLE idempotency (
    namespace text        NOT NULL,
    key       text        NOT NULL,
    id        bigint      NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    topic     integer     NOT NULL,
    day       date        NOT NULL,
    confirmed boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (namespace, key)
);
CREATE INDEX idempotency_at ON idempotency USING brin (at);

-- What happened to a message, in one immutable row each. kind: see mq.event_name.
CREATE TABLE event (
    id       bigint      NOT NULL,
    txid     bigint      NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    topic    integer     NOT NULL,
    epoch    integer     NOT NULL,
    attempt  smallint    NOT NULL,
    kind     smallint    NOT NULL,
    consumer text,
    detail   text
) PARTITION BY RANGE (at);
CREATE INDEX event_id ON event (id);
CREATE INDEX event_txid ON event USING brin (txid);

-- Which shard of which deployment this database is: DATABASE_URLS in another order must not be believed.
CREATE TABLE shard_identity (
    singleton  boolean  PRIMARY KEY DEFAULT true CHECK (singleton),
    deployment uuid     NOT NULL,
    number     smallint NOT NULL
);

-- Make the partition of one day. Built beside its parent and attached, which waits for no insert and stops none.
-- Racing callers queue on the lock that attaching takes anyway; the later ones find the partition made.
CREATE FUNCTION make_partition(parent text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    child text := parent || '_' || to_char(day, 'YYYYMMDD');
    low   text := CASE parent WHEN 'event' THEN day::text || ' 00:00+00' ELSE day::text END;
    high  text := CASE parent WHEN 'event' THEN (day + 1)::text || ' 00:00+00' ELSE (day + 1)::text END;
    key   text := CASE parent WHEN 'event' THEN 'at' ELSE 'day' END;
BEGIN
    IF parent NOT IN ('message', 'event') THEN
        RAISE EXCEPTION 'make_partition: % is not partitioned by day', parent;
    END IF;
    IF to_regclass(child) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
    IF to_regclass(child) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', child, parent);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, low, high);
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION make_partition FROM PUBLIC;

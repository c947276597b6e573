-- What people read. Everything lies in the schema `mq`; the role mqueue_reader can read these views and nothing else.
CREATE SCHEMA mq;
COMMENT ON SCHEMA mq IS 'Read-only views of the queue, for people.';

CREATE FUNCTION mq.event_name(kind smallint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT (ARRAY['published', 'delivered', 'redelivered', 'nacked', 'lapsed', 'released', 'moved', 'acked', 'dead',
                  'replayed', 'cancelled', 'deleted'])[kind]
$$;

-- Text as it was sent where the bytes are UTF-8, and PostgreSQL's escaped form where they are not.
CREATE FUNCTION mq.payload_text(payload bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN encode(payload, 'escape');
END $$;

CREATE VIEW mq.messages AS
SELECT m.id, t.namespace, t.name AS topic,
       CASE WHEN d.id IS NULL THEN CASE WHEN dl.id IS NOT NULL THEN 'dead' ELSE coalesce(settled.state, 'deleted') END
            WHEN d.state = 2 AND d.until > now() THEN 'leased'
            WHEN d.due > now() THEN 'scheduled'
            ELSE 'ready' END AS state,
       m.priority, coalesce(d.attempts, dl.attempts, settled.attempt) AS attempts, m.enqueued_at, m.deliver_after, d.due,
       CASE WHEN d.state = 2 THEN d.until END AS lease_expires_at, d.expiry AS expires_at,
       m.payload_bytes, mq.payload_text(m.payload) AS payload, m.headers, m.traceparent, m.producer, m.idempotency_key
FROM message m
JOIN topic t ON t.id = m.topic
LEFT JOIN delivery d ON d.id = m.id
LEFT JOIN dead_letter dl ON dl.id = m.id
LEFT JOIN LATERAL (
    SELECT mq.event_name(e.kind) AS state, e.attempt FROM event e
    WHERE e.id = m.id AND e.kind IN (8, 11, 12) ORDER BY e.at DESC LIMIT 1
) settled ON d.id IS NULL AND dl.id IS NULL;

CREATE VIEW mq.leases AS
SELECT d.id, t.namespace, t.name AS topic, d.priority, d.attempts AS attempt, held_by.consumer, held_by.at AS leased_at,
       d.until AS expires_at, d.until - now() AS remaining
FROM delivery d
JOIN topic t ON t.id = d.topic
LEFT JOIN LATERAL (
    SELECT e.consumer, e.at FROM event e WHERE e.id = d.id AND e.epoch = d.epoch AND e.kind IN (2, 3) LIMIT 1
) held_by ON true
WHERE d.state = 2 AND d.until > now();

CREATE VIEW mq.dead_letters AS
SELECT dl.id, t.namespace, t.name AS topic, dl.reason, dl.error, dl.attempts, dl.priority, dl.enqueued_at, dl.died_at,
       dl.payload_bytes, mq.payload_text(dl.payload) AS payload, dl.headers, dl.traceparent, dl.producer
FROM dead_letter dl
JOIN topic t ON t.id = dl.topic;

-- Counts rows, so it takes its time on a shard with millions of them.
CREATE VIEW mq.depth AS
SELECT t.namespace, t.name AS topic, coalesce(live.ready, 0) AS ready, coalesce(live.scheduled, 0) AS scheduled,
       coalesce(live.leased, 0) AS leased, coalesce(gone.dead, 0) AS dead
FROM topic t
LEFT JOIN (
    SELECT topic, count(*) FILTER (WHERE NOT (state = 2 AND until > now()) AND due <= now()) AS ready,
           count(*) FILTER (WHERE NOT (state = 2 AND until > now()) AND due > now()) AS scheduled,
           count(*) FILTER (WHERE state = 2 AND until > now()) AS leased
    FROM delivery GROUP BY topic
) live ON live.topic = t.id
LEFT JOIN (SELECT topic, count(*) AS dead FROM dead_letter GROUP BY topic) gone ON gone.topic = t.id;

-- One index probe a priority: quick however deep the queues are.
CREATE VIEW mq.oldest AS
SELECT t.namespace, t.name AS topic, min(head.due) AS due, now() - min(head.due) AS age
FROM topic t
CROSS JOIN LATERAL (
    WITH RECURSIVE level(priority) AS (
        SELECT min(d.priority) FROM delivery d WHERE d.topic = t.id AND d.state = 0
        UNION ALL
        SELECT (SELECT min(d.priority) FROM delivery d
                WHERE d.topic = t.id AND d.state = 0 AND d.priority > level.priority)
        FROM level WHERE level.priority IS NOT NULL
    )
    SELECT (SELECT d.due FROM delivery d WHERE d.topic = t.id AND d.state = 0 AND d.priority = level.priority
            ORDER BY d.due LIMIT 1) AS due
    FROM level WHERE level.priority IS NOT NULL
) head
WHERE head.due <= now()
GROUP BY t.id;

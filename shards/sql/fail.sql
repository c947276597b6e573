-- What was decided about failed deliveries whose rows this transaction has locked: arrays of id, kind of event (4 nacked,
-- 5 lapsed, null: it only waited), due (null: dead), reason, error and consumer. Answers the refs of those that wait
-- again: topic, ref, due (null: it is due).
WITH given AS (
    SELECT * FROM unnest(%(id)s::bigint[], %(kind)s::smallint[], %(due)s::timestamptz[], %(reason)s::text[],
                         %(error)s::text[], %(consumer)s::text[]) AS given (id, kind, due, reason, error, consumer)
), waiting AS (
    UPDATE delivery d SET state = 0, until = NULL, due = g.due
    FROM given g WHERE d.id = g.id AND g.due IS NOT NULL
    RETURNING d.*
), buried AS (
    INSERT INTO dead_letter (id, enqueued_at, deliver_after, ttl_ms, topic, day, epoch, payload_bytes, attempts,
                             max_retries, priority, is_json, payload, headers, retry, traceparent, producer,
                             idempotency_key, ordering_key, concurrency_key, error, reason)
    SELECT m.id, m.enqueued_at, m.deliver_after, m.ttl_ms, m.topic, m.day, d.epoch, m.payload_bytes, d.attempts,
           m.max_retries, d.priority, m.is_json, m.payload, m.headers, m.retry, m.traceparent, m.producer,
           m.idempotency_key, m.ordering_key, m.concurrency_key, g.error, g.reason
    FROM given g JOIN delivery d ON d.id = g.id JOIN message m ON m.id = d.id AND m.day = d.day
    WHERE g.due IS NULL
    RETURNING id, topic, epoch, attempts
), tallied AS (
    INSERT INTO tally_delta
    SELECT topic, bucket(due), count(*), 0, 0 FROM waiting GROUP BY 1, 2
    UNION ALL SELECT topic, 0, 0, -count(*), 0 FROM waiting GROUP BY 1
    UNION ALL
    SELECT d.topic, 0, 0, -count(*) FILTER (WHERE g.kind IS NOT NULL), count(*)
    FROM given g JOIN delivery d ON d.id = g.id WHERE g.due IS NULL GROUP BY 1
    UNION ALL
    SELECT d.topic, bucket(d.due), -count(*), 0, 0
    FROM given g JOIN delivery d ON d.id = g.id WHERE g.due IS NULL AND g.kind IS NULL GROUP BY 1, 2
), gone AS (
    DELETE FROM delivery d USING buried WHERE d.id = buried.id
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer, detail, due)
    SELECT w.id, w.topic, w.epoch, w.attempts, g.kind, g.consumer, g.error, g.due
    FROM (SELECT id, topic, epoch, attempts FROM waiting UNION ALL TABLE buried) w JOIN given g ON g.id = w.id
    WHERE g.kind IS NOT NULL
    UNION ALL
    SELECT b.id, b.topic, b.epoch, b.attempts, 9, NULL, g.reason, NULL FROM buried b JOIN given g ON g.id = b.id
)
SELECT topic, ref(priority, due, id, epoch, day), CASE WHEN due > now() THEN due END FROM waiting

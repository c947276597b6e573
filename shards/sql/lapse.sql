-- End up to %(limit)s leases whose deadline has passed: back in line at that deadline, or dead when the attempts are
-- used up. And bury up to %(limit)s that wait and are past their ttl. Answers how many came back, and how many died.
WITH lapsed AS (
    SELECT d.* FROM delivery d WHERE d.state > 0 AND d.until <= now()
    ORDER BY d.until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), expired AS (
    SELECT d.* FROM delivery d WHERE d.state = 0 AND d.expiry <= now()
    ORDER BY d.expiry LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), over AS (
    SELECT *, true AS held FROM lapsed UNION ALL SELECT *, false FROM expired
), judged AS (
    SELECT o.*, CASE WHEN o.held AND o.attempts > coalesce(m.max_retries, %(max_retries)s) THEN 'max_retries'
                     WHEN o.expiry <= now() THEN 'expired' END AS reason
    FROM over o JOIN message m ON m.id = o.id AND m.day = o.day
), waiting AS (
    UPDATE delivery d SET state = 0, due = judged.until, until = NULL
    FROM judged WHERE d.id = judged.id AND judged.reason IS NULL RETURNING d.id
), buried AS (
    INSERT INTO dead_letter (id, enqueued_at, deliver_after, ttl_ms, topic, day, epoch, payload_bytes, attempts,
                             max_retries, priority, is_json, payload, headers, retry, traceparent, producer,
                             idempotency_key, ordering_key, concurrency_key, error, reason)
    SELECT m.id, m.enqueued_at, m.deliver_after, m.ttl_ms, m.topic, m.day, j.epoch, m.payload_bytes, j.attempts,
           m.max_retries, m.priority, m.is_json, m.payload, m.headers, m.retry, m.traceparent, m.producer,
           m.idempotency_key, m.ordering_key, m.concurrency_key, CASE WHEN j.held THEN 'lease expired' END, j.reason
    FROM judged j JOIN message m ON m.id = j.id AND m.day = j.day WHERE j.reason IS NOT NULL
    RETURNING id
), gone AS (
    DELETE FROM delivery d USING buried WHERE d.id = buried.id
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, detail)
    SELECT id, topic, epoch, attempts, 5, 'lease expired' FROM judged WHERE held
    UNION ALL
    SELECT id, topic, epoch, attempts, 9, reason FROM judged WHERE reason IS NOT NULL
)
SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM buried)

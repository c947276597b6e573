-- Let dead letters by id live again, due now, as attempt 1, above the epochs of before; ids that are not dead are
-- skipped, and what died after %(by)s (null: never) is left. A message whose day is over for long, or has been dropped
-- from the log, comes back into it today: a day that may be dropped must get no live delivery. The event says %(detail)s.
-- Answers topics and refs.
WITH taken AS (
    DELETE FROM dead_letter
    WHERE topic = %(topic)s AND id = ANY(%(ids)s::bigint[]) AND died_at <= coalesce(%(by)s::timestamptz, 'infinity')
    RETURNING *
), logged_before AS (
    SELECT t.id FROM taken t JOIN message m ON m.id = t.id AND m.day = t.day
    WHERE t.day >= (now() AT TIME ZONE 'UTC')::date - 2
), revived AS (
    INSERT INTO message (id, enqueued_at, deliver_after, ttl_ms, topic, day, payload_bytes, max_retries, priority,
                         is_json, payload, headers, retry, traceparent, producer, idempotency_key, ordering_key,
                         concurrency_key)
    SELECT id, enqueued_at, deliver_after, ttl_ms, topic, (now() AT TIME ZONE 'UTC')::date, payload_bytes, max_retries,
           priority, is_json, payload, headers, retry, traceparent, producer, idempotency_key, ordering_key,
           concurrency_key
    FROM taken WHERE id NOT IN (SELECT id FROM logged_before)
    RETURNING id, day
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer, detail, due)
    SELECT id, topic, epoch, 0, 10, %(consumer)s, %(detail)s, now() FROM taken
), tallied AS (
    INSERT INTO tally_delta
    SELECT topic, bucket(now()), count(*), 0, 0 FROM taken GROUP BY 1
    UNION ALL SELECT topic, 0, 0, 0, -count(*) FROM taken GROUP BY 1
)
INSERT INTO delivery (id, topic, day, epoch, priority, due, expiry)
SELECT t.id, t.topic, coalesce(r.day, t.day), t.epoch + 1, t.priority, now(), now() + t.ttl_ms * interval '1 millisecond'
FROM taken t LEFT JOIN revived r ON r.id = t.id
RETURNING topic, ref(priority, due, id, epoch, day)

-- Add to the usage what transactions from %(txid)s on have written, before %(until)s: all of those have ended. A message
-- that a replay puts back into the log is no new one: it is far older than the count before, at %(at)s. With %(whole)s
-- that is all there is by now.
WITH counted AS (
    SELECT topic, (enqueued_at AT TIME ZONE 'UTC')::date AS day, count(*) AS enqueued, sum(payload_bytes) AS bytes,
           0 AS delivered, 0 AS acked, 0 AS retried, 0 AS dead
    FROM message
    WHERE txid >= %(txid)s::bigint AND txid < %(until)s::bigint
      AND enqueued_at > %(at)s::timestamptz - interval '1 day'
    GROUP BY 1, 2
    UNION ALL
    SELECT topic, (at AT TIME ZONE 'UTC')::date, 0, 0, count(*) FILTER (WHERE kind IN (2, 3)),
           count(*) FILTER (WHERE kind = 8), count(*) FILTER (WHERE kind IN (4, 5) AND due IS NOT NULL),
           count(*) FILTER (WHERE kind = 9)
    FROM event
    WHERE txid >= %(txid)s::bigint AND txid < %(until)s::bigint AND kind IN (2, 3, 4, 5, 8, 9)
    GROUP BY 1, 2
), added AS (
    INSERT INTO usage AS u (topic, day, enqueued, enqueued_bytes, delivered, acked, retried, dead)
    SELECT topic, day, sum(enqueued), sum(bytes), sum(delivered), sum(acked), sum(retried), sum(dead)
    FROM counted GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (topic, day) DO UPDATE
    SET enqueued = u.enqueued + excluded.enqueued, enqueued_bytes = u.enqueued_bytes + excluded.enqueued_bytes,
        delivered = u.delivered + excluded.delivered, acked = u.acked + excluded.acked,
        retried = u.retried + excluded.retried, dead = u.dead + excluded.dead
)
UPDATE usage_mark SET txid = %(until)s, at = CASE WHEN %(whole)s THEN now() ELSE at END

-- Give a message that waits a new place; not one whose lease has just run out: its failure has to be judged first. The
-- epoch rises, so that whoever saw it at its old place cannot claim it there. Its ttl counts from a new due time.
-- Answers leased, whether that lease has run out, the new ref, and due (null: it is due).
WITH found AS (
    SELECT d.id, d.state = 2 AS leased, d.until <= now() AS is_over, d.state, d.due FROM delivery d
    WHERE d.id = %(id)s AND d.topic = %(topic)s FOR UPDATE
), wish AS (
    SELECT greatest(now(), coalesce(%(at)s::timestamptz,
                                    now() + %(delay_ms)s::bigint * interval '1 millisecond')) AS due,
           %(at)s::timestamptz IS NOT NULL OR %(delay_ms)s::bigint IS NOT NULL AS given
), moved AS (
    UPDATE delivery d SET priority = coalesce(%(priority)s::smallint, d.priority), epoch = d.epoch + 1, state = 0,
                          until = NULL, due = CASE WHEN w.given THEN w.due ELSE d.due END,
                          expiry = CASE WHEN w.given THEN w.due + m.ttl_ms * interval '1 millisecond' ELSE d.expiry END
    FROM found f, wish w, message m
    WHERE d.id = f.id AND NOT f.leased AND m.id = d.id AND m.day = d.day
    RETURNING d.*, f.state AS old_state, f.due AS old_due
), logged AS (
    INSERT INTO event (id, topic, epoch, attempt, kind, consumer, due)
    SELECT id, topic, epoch, attempts, 7, %(consumer)s, due FROM moved
), levels AS (
    INSERT INTO level SELECT topic, priority FROM moved ON CONFLICT DO NOTHING
), tallied AS (
    INSERT INTO tally_delta
    SELECT topic, bucket(due), 1, 0, 0 FROM moved
    UNION ALL
    SELECT topic, CASE old_state WHEN 0 THEN bucket(old_due) ELSE 0 END, -(old_state = 0)::integer,
           -(old_state > 0)::integer, 0
    FROM moved
)
SELECT f.leased, f.is_over, ref(m.priority, m.due, m.id, m.epoch, m.day), CASE WHEN m.due > now() THEN m.due END
FROM found f LEFT JOIN moved m ON m.id = f.id

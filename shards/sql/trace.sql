-- What happened to a message, in time order. Its enqueue is told by its row in the log, or by its dead letter.
SELECT 'published', enqueued_at AS at, 0, producer, NULL FROM message WHERE id = %(id)s AND topic = %(topic)s
UNION
SELECT 'published', enqueued_at, 0, producer, NULL FROM dead_letter WHERE id = %(id)s AND topic = %(topic)s
UNION ALL
SELECT mq.event_name(kind), at, attempt, consumer, detail FROM event WHERE id = %(id)s AND topic = %(topic)s
ORDER BY at

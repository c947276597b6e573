-- The refs of up to %(limit)s due waiting messages of a topic, in order, from a place on: priority, due, id. Walks the
-- priorities like `claim`, and begins at the place, not at the head: dead rows that a long transaction keeps there cost
-- nothing. Due a moment ahead counts: a clock that reads Redis may be ahead of ours.
SELECT ref(level.priority, found.due, found.id, found.epoch, found.day)
FROM (SELECT priority FROM level WHERE topic = %(topic)s AND priority >= %(priority)s ORDER BY priority) level
CROSS JOIN LATERAL (
    SELECT d.due, d.id, d.epoch, d.day FROM delivery d
    WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority = level.priority
      AND (d.due, d.id) >= (CASE WHEN level.priority = %(priority)s THEN %(due)s::timestamptz ELSE '-infinity' END,
                            CASE WHEN level.priority = %(priority)s THEN %(id)s ELSE 0 END)
      AND d.due <= now() + interval '1 second'
    ORDER BY d.due, d.id LIMIT %(limit)s
) found
LIMIT %(limit)s

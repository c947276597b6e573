-- The ids at the head of what is ready (or, with %(later)s, of what is scheduled) in a topic, in order, without a lease.
SELECT found.id FROM (SELECT priority FROM level WHERE topic = %(topic)s ORDER BY priority) level
CROSS JOIN LATERAL (
    SELECT d.id, d.due FROM delivery d
    WHERE d.topic = %(topic)s AND d.state = 0 AND d.priority = level.priority
      AND d.due > CASE WHEN %(later)s THEN now() ELSE '-infinity' END
      AND d.due <= CASE WHEN %(later)s THEN 'infinity' ELSE now() END
    ORDER BY d.due, d.id LIMIT %(limit)s
) found
LIMIT %(limit)s

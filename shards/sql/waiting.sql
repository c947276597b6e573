-- Of messages by id, those that wait: topic, ref, and when they are due, or null where they are due.
SELECT d.topic, ref(d.priority, d.due, d.id, d.epoch, d.day), CASE WHEN d.due > now() THEN d.due END
FROM delivery d WHERE d.id = ANY(%(ids)s::bigint[]) AND d.state + 0 = 0

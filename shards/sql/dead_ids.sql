-- Ids of dead letters of a topic, ascending, for work in portions.
SELECT id FROM dead_letter WHERE topic = %(topic)s AND id > %(after)s ORDER BY id LIMIT %(limit)s

-- Ids of dead letters of a topic, ascending, for work in portions. Rows are compared as in `dead_page`.
SELECT id FROM dead_letter
WHERE (topic, id) > (%(topic)s, %(after)s) AND (topic, id) < (%(topic)s::integer + 1, 0)
ORDER BY topic, id LIMIT %(limit)s

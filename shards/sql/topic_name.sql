-- The name of a topic, by its number.
SELECT name FROM topic WHERE id = %(id)s

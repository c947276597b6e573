-- The names of topics by number: number, namespace, name.
SELECT id, namespace, name FROM topic WHERE id = ANY(%(topics)s::integer[])

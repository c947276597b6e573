-- Note the names of topics on a shard before their first message lands there.
INSERT INTO topic (id, namespace, name)
SELECT * FROM unnest(%(id)s::integer[], %(namespace)s::text[], %(name)s::text[])
ON CONFLICT DO NOTHING

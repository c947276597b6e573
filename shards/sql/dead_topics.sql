-- The topics of a namespace, or one of them, by number, that may have dead letters.
SELECT id FROM topic t
WHERE namespace = %(namespace)s AND (%(topic)s::text IS NULL OR name = %(topic)s)
  AND EXISTS (SELECT FROM dead_letter d WHERE (d.topic, d.id) > (t.id, 0) AND (d.topic, d.id) < (t.id + 1, 0))

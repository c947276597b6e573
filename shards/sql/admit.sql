-- Of these ids those that no message has, for whoever may add it twice: a row in `keyed` is added by one of them alone.
INSERT INTO keyed (id)
SELECT g.id FROM unnest(%(ids)s::bigint[]) AS g (id)
WHERE NOT EXISTS (SELECT FROM message m WHERE m.id = g.id)
  AND NOT EXISTS (SELECT FROM delivery d WHERE d.id = g.id)
  AND NOT EXISTS (SELECT FROM dead_letter l WHERE l.id = g.id)
ORDER BY g.id ON CONFLICT DO NOTHING
RETURNING id

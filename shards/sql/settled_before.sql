-- For those that no live lease was found of: arrays of position, id, topic, epoch and the kinds of event that the verb
-- leaves. Answers the position; whether this lease was settled by this verb before (answers get lost, and a repeated
-- request is told the same again), when it is due again, whether it died of it; whether the topic has such a message; and
-- whether its slot has left this shard, where nothing of all that can be told.
SELECT g.position, e.id IS NOT NULL, e.due,
       EXISTS (SELECT FROM event x WHERE x.id = g.id AND x.topic = g.topic AND x.epoch = g.epoch AND x.kind = 9),
       EXISTS (SELECT FROM message m WHERE m.id = g.id AND m.topic = g.topic),
       EXISTS (SELECT FROM moving v WHERE v.state IN ('gone', 'left') AND get_bit(v.slots, (g.id %% 1024)::integer) = 1)
FROM unnest(%(position)s::integer[], %(id)s::bigint[], %(topic)s::integer[], %(epoch)s::integer[])
    AS g (position, id, topic, epoch)
LEFT JOIN LATERAL (
    SELECT id, due FROM event e
    WHERE e.id = g.id AND e.topic = g.topic AND e.epoch = g.epoch AND e.kind = %(kind)s LIMIT 1
) e ON true

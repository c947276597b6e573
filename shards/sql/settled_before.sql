-- For those that `ack` did not find leased: was this (id, epoch) acked already (answers get lost, and a repeated ack is
-- told yes again), and does the topic have such a message at all?
SELECT g.position,
       EXISTS (SELECT FROM event e WHERE e.id = g.id AND e.topic = g.topic AND e.epoch = g.epoch AND e.kind = 8),
       EXISTS (SELECT FROM message m WHERE m.id = g.id AND m.topic = g.topic)
FROM unnest(%(position)s::integer[], %(id)s::bigint[], %(topic)s::integer[], %(epoch)s::integer[])
    AS g (position, id, topic, epoch)

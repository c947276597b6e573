-- Whether a slot has left this shard, so that nothing can be told here of what was not found.
SELECT EXISTS (SELECT FROM moving WHERE state IN ('gone', 'left') AND get_bit(slots, %(slot)s::integer) = 1)

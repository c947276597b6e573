-- Raise the marks of writers, from what they are to what the records of this transaction make them: arrays of writer,
-- previous and reached. Fewer rows than were given, or a conflict: somebody else has raised one, and nothing may be
-- committed. (Two that do it at once meet in the primary key; an old link stays for an hour, for whoever was slow.)
INSERT INTO buffer_mark (writer, previous, reached)
SELECT g.writer, g.previous, g.reached
FROM unnest(%(writers)s::uuid[], %(previous)s::bigint[], %(reached)s::bigint[]) AS g (writer, previous, reached)
WHERE g.previous = coalesce(
    (SELECT m.reached FROM buffer_mark m WHERE m.writer = g.writer ORDER BY m.previous DESC LIMIT 1), 0)
ORDER BY g.writer

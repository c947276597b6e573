-- How far the logs of writers are committed: an array of writers. Answers writer and number, 0 for one that has no mark.
SELECT w.writer, coalesce(
    (SELECT m.reached FROM buffer_mark m WHERE m.writer = w.writer ORDER BY m.previous DESC LIMIT 1), 0)
FROM unnest(%(writers)s::uuid[]) AS w (writer)

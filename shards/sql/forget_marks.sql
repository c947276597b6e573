-- Drop links that nobody needs: those of an hour ago that are not their writer's last, and all of writers that have not
-- been heard of for two years: a process may be silent for long, or its node away, and what it has logged would come again.
-- At most so many at a time; answers how many there were.
WITH old AS (
    SELECT m.writer, m.previous FROM buffer_mark m
    WHERE m.at < now() - interval '1 hour'
      AND (m.at < now() - interval '2 years'
           OR EXISTS (SELECT FROM buffer_mark n WHERE n.writer = m.writer AND n.previous > m.previous))
    LIMIT %(limit)s
), gone AS (
    DELETE FROM buffer_mark m USING old WHERE m.writer = old.writer AND m.previous = old.previous RETURNING 1
)
SELECT count(*) FROM gone

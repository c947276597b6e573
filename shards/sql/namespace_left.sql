-- What a shard holds of a namespace: the days of the log with rows of it, and how many dead letters.
WITH mine AS (SELECT id FROM topic WHERE namespace = %(namespace)s)
SELECT ARRAY(
           SELECT day FROM message WHERE topic IN (SELECT id FROM mine)
           UNION
           SELECT (at AT TIME ZONE 'UTC')::date FROM event WHERE topic IN (SELECT id FROM mine)
           ORDER BY 1
       ), (SELECT count(*) FROM dead_letter WHERE topic IN (SELECT id FROM mine))

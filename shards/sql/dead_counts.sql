-- Dead letters of every topic that has any, or of those of one namespace: namespace, topic, how many. From the counts, not
-- from the rows.
SELECT t.namespace, t.name, sum(c.dead)::bigint
FROM (SELECT topic, dead FROM tally UNION ALL SELECT topic, dead FROM tally_delta) c JOIN topic t ON t.id = c.topic
WHERE %(namespace)s::text IS NULL OR t.namespace = %(namespace)s
GROUP BY 1, 2 HAVING sum(c.dead) > 0

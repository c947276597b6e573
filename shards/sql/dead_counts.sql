-- Dead letters of every topic that has any: namespace, topic, how many. From the counts, not from the rows.
SELECT t.namespace, t.name, sum(c.dead)::bigint
FROM (SELECT topic, dead FROM tally UNION ALL SELECT topic, dead FROM tally_delta) c JOIN topic t ON t.id = c.topic
GROUP BY 1, 2 HAVING sum(c.dead) > 0

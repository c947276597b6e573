-- What the topics of a namespace, or one of them, have used from %(since)s to %(until)s, by day and topic, the latest day
-- first. With %(whole)s one row a day, of topic ''. Below the place (day, topic).
SELECT u.day, CASE WHEN %(whole)s THEN '' ELSE t.name END AS name, sum(u.enqueued)::bigint, sum(u.enqueued_bytes)::bigint,
       sum(u.delivered)::bigint, sum(u.acked)::bigint, sum(u.retried)::bigint, sum(u.dead)::bigint
FROM topic t JOIN usage u ON u.topic = t.id
WHERE t.namespace = %(namespace)s AND (%(topic)s::text IS NULL OR t.name = %(topic)s)
  AND u.day BETWEEN %(since)s AND %(until)s
  AND (u.day < %(before)s::date
       OR NOT %(whole)s AND u.day = %(before)s::date AND t.name COLLATE "C" > %(after)s::text)
GROUP BY 1, 2
ORDER BY 1 DESC, CASE WHEN %(whole)s THEN '' ELSE t.name END COLLATE "C" LIMIT %(limit)s

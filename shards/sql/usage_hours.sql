-- On the control database: what the topics of a namespace, or one of them, did from %(since)s to before %(until)s, by
-- %(unit)s ('hour' or 'day') and topic, the latest first. With %(whole)s one row a time, of topic ''. Below the place
-- (time, topic). Of several topics or hours, a time is the longest of theirs.
SELECT at, topic, sum(messages)::bigint, sum(bytes)::bigint, sum(deliveries)::bigint, sum(acked)::bigint,
       sum(retries)::bigint, sum(dead)::bigint,
       max(wait_ms[1]), max(wait_ms[2]), max(wait_ms[3]),
       max(work_ms[1]), max(work_ms[2]), max(work_ms[3]),
       max(total_ms[1]), max(total_ms[2]), max(total_ms[3])
FROM (
    SELECT date_trunc(%(unit)s, u.hour, 'UTC') AS at, CASE WHEN %(whole)s THEN '' ELSE u.name END COLLATE "C" AS topic,
           messages, bytes, deliveries, acked, retries, dead, wait_ms, work_ms, total_ms
    FROM usage_hour u
    WHERE u.namespace = %(namespace)s AND (%(topic)s::text IS NULL OR u.name = %(topic)s)
      AND u.hour >= %(since)s AND u.hour < %(until)s
) h
WHERE at < %(before)s OR NOT %(whole)s AND at = %(before)s AND topic > %(after)s::text
GROUP BY 1, 2
ORDER BY 1 DESC, 2 LIMIT %(limit)s

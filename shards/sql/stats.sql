-- One page of the topics of a namespace, or one of them, with their counts. A lease that has just run out is ready.
WITH page AS (
    SELECT id, name FROM topic
    WHERE namespace = %(namespace)s AND (%(topic)s::text IS NULL OR name = %(topic)s) AND name COLLATE "C" > %(after)s
    ORDER BY name COLLATE "C" LIMIT %(limit)s
), held AS (
    SELECT topic, count(*) FILTER (WHERE until > now()) AS leased, count(*) FILTER (WHERE until <= now()) AS lapsed,
           min(due) FILTER (WHERE until <= now()) AS oldest
    FROM delivery WHERE state > 0 AND topic IN (SELECT id FROM page) GROUP BY topic
)
SELECT p.name, coalesce(w.ready, 0) + coalesce(h.lapsed, 0), coalesce(w.scheduled, 0), coalesce(h.leased, 0),
       coalesce(g.dead, 0), (extract(epoch FROM now() - least(w.oldest, h.oldest)) * 1000)::bigint
FROM page p
LEFT JOIN held h ON h.topic = p.id
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE due <= now()) AS ready, count(*) FILTER (WHERE due > now()) AS scheduled,
           min(due) FILTER (WHERE due <= now()) AS oldest
    FROM delivery d WHERE d.topic = p.id AND d.state = 0
) w ON true
LEFT JOIN LATERAL (SELECT count(*) AS dead FROM dead_letter l WHERE l.topic = p.id) g ON true
ORDER BY p.name COLLATE "C"

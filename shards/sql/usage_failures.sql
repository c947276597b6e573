-- On the control database: what the messages of a namespace, or of one topic, died of from the day %(since)s to %(until)s,
-- the worst first, below the place (deaths, id). Answers id, topic, reason, fingerprint, deaths, all deaths of the topic
-- in these days, when the first of its kind ever died, when the last did, the last sample and its id, and the days with
-- the deaths of each.
SELECT id, name, reason, fingerprint, deaths, of_topic, first_at, last_at, sample, sample_id, days, deaths_by_day
FROM (
    SELECT encode(substr(sha256(convert_to(concat_ws(' ', f.name, f.reason, f.fingerprint), 'UTF8')), 1, 8), 'hex') AS id,
           f.name, f.reason, f.fingerprint, (sum(f.deaths) FILTER (WHERE inside))::bigint AS deaths,
           (sum(sum(f.deaths) FILTER (WHERE inside)) OVER (PARTITION BY f.name))::bigint AS of_topic,
           min(f.first_at) AS first_at, max(f.last_at) FILTER (WHERE inside) AS last_at,
           (array_agg(f.sample ORDER BY f.last_at DESC) FILTER (WHERE inside))[1] AS sample,
           (array_agg(f.sample_id ORDER BY f.last_at DESC) FILTER (WHERE inside))[1] AS sample_id,
           array_agg(f.day ORDER BY f.day) FILTER (WHERE inside) AS days,
           array_agg(f.deaths ORDER BY f.day) FILTER (WHERE inside) AS deaths_by_day
    FROM (SELECT *, day >= %(since)s AS inside FROM usage_failure WHERE day <= %(until)s) f
    WHERE f.namespace = %(namespace)s AND (%(topic)s::text IS NULL OR f.name = %(topic)s)
    GROUP BY f.name, f.reason, f.fingerprint
) g
WHERE deaths < %(before)s OR deaths = %(before)s AND id > %(after)s::text
ORDER BY deaths DESC, id LIMIT %(limit)s

-- The ids of what consumers hold in a topic, the soonest deadline first.
SELECT id FROM delivery WHERE topic = %(topic)s AND state = 2 AND until > now() ORDER BY until LIMIT %(limit)s

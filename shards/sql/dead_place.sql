-- Of which topic a dead letter of a namespace is, and when it died.
SELECT d.topic, d.died_at FROM dead_letter d JOIN topic t ON t.id = d.topic
WHERE d.id = %(id)s AND t.namespace = %(namespace)s

-- Of which topic a dead letter is, and when it died.
SELECT topic, died_at FROM dead_letter WHERE id = %(id)s

-- When a message died, if it is a dead letter.
SELECT died_at FROM dead_letter WHERE id = %(id)s

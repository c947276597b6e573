-- The days of the log with messages that are not settled yet.
SELECT DISTINCT day FROM delivery

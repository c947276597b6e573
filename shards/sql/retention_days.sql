-- On the control database: topics whose messages are kept for a time of their own, and for how many days.
SELECT topic_id, retention_days FROM topic_settings WHERE retention_days IS NOT NULL

-- The order in which dead letters are searched: those that died last first. It replaces the index without the id.
CREATE INDEX CONCURRENTLY IF NOT EXISTS dead_letter_order ON dead_letter (topic, died_at, id);

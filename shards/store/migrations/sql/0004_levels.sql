-- The priorities that a topic has ever used. Who looks for the head of each priority begins here: in `delivery` it would
-- have to wade through the dead rows at the heads, which a transaction that is held open keeps.
CREATE TABLE IF NOT EXISTS level (
    topic    integer  NOT NULL,
    priority smallint NOT NULL,
    PRIMARY KEY (topic, priority)
);
INSERT INTO level SELECT topic, priority FROM delivery UNION SELECT topic, priority FROM dead_letter
ON CONFLICT DO NOTHING;

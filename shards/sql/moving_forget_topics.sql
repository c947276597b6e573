-- Forget topics and their counts where no row of them is left: array of numbers. Whoever calls it has locked `tally`, or
-- the flusher might put back what it has in hand.
WITH sums AS (
    DELETE FROM tally WHERE topic = ANY(%(topics)s::integer[])
), deltas AS (
    DELETE FROM tally_delta WHERE topic = ANY(%(topics)s::integer[])
), levels AS (
    DELETE FROM level WHERE topic = ANY(%(topics)s::integer[])
)
DELETE FROM topic WHERE id = ANY(%(topics)s::integer[])

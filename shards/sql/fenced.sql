-- Which of these keyed messages will never be there.
SELECT id FROM keyed WHERE id = ANY(%(ids)s::bigint[]) AND fenced

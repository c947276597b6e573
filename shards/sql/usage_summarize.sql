-- Let a BRIN index know what is in full ranges of its table, from one up to another. The range that is being written is
-- left alone: each insert would have to change its summary.
SELECT count(brin_summarize_range(%(index)s::regclass, n * 128)) FROM generate_series(%(first)s::bigint, %(last)s) n

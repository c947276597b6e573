-- After a connection was lost with an enqueue under way: the time at which these messages were added (null: they are not
-- there), whether the session that may still add them is alive, and our own, by which a pooler in between shows itself.
SELECT (SELECT min(enqueued_at) FROM message WHERE id = ANY(%(ids)s::bigint[])),
       EXISTS (SELECT FROM pg_stat_activity WHERE pid = %(pid)s), pg_backend_pid()

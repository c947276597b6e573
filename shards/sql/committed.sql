-- After a connection was lost with an enqueue under way, and after it was seen whether the session is still alive: which
-- of these messages are there, and when they were added.
SELECT id, enqueued_at FROM message WHERE id = ANY(%(ids)s::bigint[])

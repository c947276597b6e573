-- Whether a session is alive, and our own, by which a pooler in between shows itself.
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %(pid)s), pg_backend_pid()

-- How many of these messages have an event of a kind with this detail: what a job has done of what it was about to do.
SELECT count(DISTINCT id) FROM event WHERE id = ANY(%(ids)s::bigint[]) AND kind = %(kind)s AND detail = %(detail)s

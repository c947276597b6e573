-- The days that rows with these txids tell of: from %(since)s on, below %(horizon)s. By the enqueue, and by the event.
SELECT (enqueued_at AT TIME ZONE 'UTC')::date FROM message WHERE txid >= %(since)s AND txid < %(horizon)s
UNION
SELECT (at AT TIME ZONE 'UTC')::date FROM event WHERE txid >= %(since)s AND txid < %(horizon)s

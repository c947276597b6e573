-- How many messages of some topics, and about how many bytes, each transaction has written, from the txid %(low)s on and
-- below %(high)s, enqueued from %(first)s on and before %(last)s: day, txid, rows, bytes.
SELECT day, txid, count(*), sum(payload_bytes + 400)::bigint
FROM message
WHERE txid >= %(low)s AND txid < %(high)s AND topic = ANY(%(topics)s::integer[])
  AND enqueued_at >= %(first)s::timestamptz AND enqueued_at < %(last)s::timestamptz
GROUP BY 1, 2

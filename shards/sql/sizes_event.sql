-- How many events of some topics each transaction has written; as sizes_message.sql.
SELECT (at AT TIME ZONE 'UTC')::date, txid, count(*), count(*) * 100
FROM event
WHERE txid >= %(low)s AND txid < %(high)s AND topic = ANY(%(topics)s::integer[])
  AND at >= %(first)s::timestamptz AND at < %(last)s::timestamptz
GROUP BY 1, 2

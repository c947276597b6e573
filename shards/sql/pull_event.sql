-- The events of a day in a range of ids, every column; as pull_message.sql.
SELECT id, txid, at, topic AS topic_id, epoch, attempt, kind, due, consumer, detail
FROM event
WHERE at >= timestamptz '%(day)s 00:00+00' AND at < timestamptz '%(day)s 00:00+00' + interval '24 hours'
  AND id BETWEEN %(low)s AND %(high)s

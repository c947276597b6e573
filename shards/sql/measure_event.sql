-- What the events of a day in a range of ids are, as measure_message.sql: the events of one message are in one range.
SELECT topic, count(*), min(id), max(id), sum(bytes), bit_xor(hash), sum(hashint8extended(hash, id) & 4294967295)::bigint,
       array_remove(ARRAY[
           CASE count(due) WHEN 0 THEN 'due' END, CASE count(consumer) WHEN 0 THEN 'consumer' END,
           CASE count(detail) WHEN 0 THEN 'detail' END
       ], NULL)
FROM (
    SELECT id, topic, due, consumer, detail, coalesce(octet_length(detail), 0) AS bytes, hash_record_extended(ROW(
        id, txid, at, topic, epoch, attempt, kind, due, consumer, detail
    ), 0) AS hash
    FROM event
    WHERE at >= %(day)s::date::timestamp AT TIME ZONE 'UTC' AND at < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC'
      AND id BETWEEN %(low)s AND %(high)s
    OFFSET 0
) hashed
GROUP BY 1 ORDER BY 1

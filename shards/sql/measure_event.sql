-- What the events of a day are, as measure_message.sql: the events of one message are in one part.
WITH digested AS MATERIALIZED (
    SELECT id, topic, coalesce(octet_length(detail), 0) AS bytes, md5(
        int8send(id) || int8send(txid) || timestamptz_send(at) || int8send(topic) || int8send(epoch)
        || int8send(attempt) || int8send(kind) || coalesce(timestamptz_send(due), '\x8000000000000000')
        || int8send(coalesce(octet_length(consumer), -1)) || int8send(coalesce(octet_length(detail), -1))
        || coalesce(textsend(consumer), '') || coalesce(textsend(detail), '')
    ) AS digest
    FROM event
    WHERE at >= %(day)s::date::timestamp AT TIME ZONE 'UTC' AND at < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC'
), parted AS (
    SELECT id, topic, bytes, ('x' || left(digest, 16))::bit(64)::bigint AS high,
           ('x' || right(digest, 8))::bit(32)::bigint AS low, sum(bytes + 200) OVER (ORDER BY id) / %(most)s AS part
    FROM digested
)
SELECT part, topic, count(*), min(id), max(id), sum(bytes), bit_xor(high), sum(low)::bigint
FROM parted GROUP BY 1, 2 ORDER BY 1, 2

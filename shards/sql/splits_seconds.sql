-- The messages of a day below a txid, of some topics or of all, that were enqueued in a range of time, in parts of about
-- %(most)s bytes by id: by part and second of the enqueue the lowest and highest id, how many there are, and their bytes.
SELECT part, extract(epoch FROM second)::bigint, low, high, messages, bytes
FROM (SELECT part, date_trunc('second', enqueued_at) AS second, min(id) AS low, max(id) AS high, count(*) AS messages,
             sum(payload_bytes) AS bytes
      FROM (SELECT id, enqueued_at, payload_bytes, sum(payload_bytes + 400) OVER (ORDER BY id) / %(most)s AS part
            FROM message
            WHERE day = %(day)s AND txid < %(horizon)s AND enqueued_at >= %(first)s AND enqueued_at < %(until)s
              AND (%(topics)s::int[] IS NULL OR topic = ANY (%(topics)s::int[]))) parted
      GROUP BY 1, 2) counted
ORDER BY 1, 2

-- The messages of a day below a txid, of some topics or of all, in parts of about %(most)s bytes by id: their lowest and
-- highest id.
SELECT min(id), max(id)
FROM (SELECT id, sum(payload_bytes + 400) OVER (ORDER BY id) / %(most)s AS part
      FROM message
      WHERE day = %(day)s AND txid < %(horizon)s
        AND (%(topics)s::int[] IS NULL OR topic = ANY (%(topics)s::int[]))) parted
GROUP BY part ORDER BY 1

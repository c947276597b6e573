-- The messages of a day below a txid, in parts of about %(most)s bytes by id: the lowest and highest id of each.
SELECT min(id), max(id)
FROM (SELECT id, sum(payload_bytes + 400) OVER (ORDER BY id) / %(most)s AS part
      FROM message WHERE day = %(day)s AND txid < %(horizon)s) parted
GROUP BY part ORDER BY 1

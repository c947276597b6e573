-- The messages of a day below a txid, in parts of at most %(most)s rows by id: the lowest and highest id of each.
SELECT min(id), max(id)
FROM (SELECT id, (row_number() OVER (ORDER BY id) - 1) / %(most)s AS part
      FROM message WHERE day = %(day)s AND txid < %(horizon)s) parted
GROUP BY part ORDER BY 1

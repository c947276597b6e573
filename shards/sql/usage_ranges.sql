-- The indexes by which new rows of the log and of the events are found, on the days around today, and how many ranges of
-- 128 pages (BRIN's own measure) each of their tables has filled.
SELECT i.indexrelid::regclass::text, pg_relation_size(i.indrelid) / current_setting('block_size')::bigint / 128
FROM pg_inherits h
JOIN pg_class t ON t.oid = h.inhrelid
JOIN pg_index i ON i.indrelid = t.oid
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_am a ON a.oid = c.relam AND a.amname = 'brin'
WHERE h.inhparent IN ('message'::regclass, 'event'::regclass)
  AND right(t.relname, 8) BETWEEN to_char(now() AT TIME ZONE 'UTC' - interval '1 day', 'YYYYMMDD')
                              AND to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD')

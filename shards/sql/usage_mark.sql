-- Up to which transaction the usage is counted, when that was so, and the first transaction that may still be open. The
-- row is locked; there is none where somebody else counts.
SELECT txid, at, pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM usage_mark FOR UPDATE SKIP LOCKED

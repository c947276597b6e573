-- Up to which transaction the log is complete: whoever reads rows with a txid below it misses none that commit later.
-- Answers that txid, and for how many seconds the oldest transaction has been open that holds it back.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       coalesce(greatest(
           (SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity
            WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()),
           (SELECT max(extract(epoch FROM clock_timestamp() - prepared)) FROM pg_prepared_xacts)
       ), 0)::float8

-- The tables of messages that have grown to several times the size that the planner knows of. A plan that was made while a
-- table was empty is kept until then, and reads everything.
SELECT quote_ident(relname) FROM pg_class
WHERE relkind = 'r' AND (relname = 'delivery' OR relname LIKE 'message\_%%')
  AND relnamespace = current_schema()::regnamespace
  AND pg_relation_size(oid) / current_setting('block_size')::bigint > 4 * greatest(relpages, 16)

-- A day that is over is sealed before it is archived: what was counted then stays what is there.

CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('mqueue.erasing', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is sealed: its day is over', TG_TABLE_NAME USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;

-- Stop everybody who would still write to the partition of a day. Adding the constraint takes the table for a moment, so
-- whoever writes to it has committed by then; the caller sets a lock_timeout, since others queue behind us meanwhile.
-- Not valid: rows that are there are not looked at, and the planner does not believe it. False where it was sealed before.
CREATE OR REPLACE FUNCTION seal_partition(parent text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    child text := parent || '_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF parent NOT IN ('message', 'event') THEN
        RAISE EXCEPTION 'seal_partition: % is not partitioned by day', parent;
    END IF;
    IF clock_timestamp() < (day + 1)::timestamp AT TIME ZONE 'UTC' + interval '1 hour' THEN
        RAISE EXCEPTION 'seal_partition: % is not over for an hour yet', day;
    END IF;
    IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = child::regclass AND conname = 'sealed') THEN
        RETURN false;
    END IF;
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT sealed CHECK (false) NOT VALID', child);
    EXECUTE format('CREATE TRIGGER sealed_rows BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', child);
    EXECUTE format('CREATE TRIGGER sealed_table BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
                   child);
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION seal_partition FROM PUBLIC;

-- Every partition of the log, those too that were detached and not dropped because somebody was killed in between.
CREATE OR REPLACE FUNCTION log_partitions()
RETURNS TABLE (parent text, day date, is_sealed boolean, is_attached boolean, is_detaching boolean)
LANGUAGE sql STABLE AS $$
    SELECT split_part(c.relname, '_', 1), to_date(split_part(c.relname, '_', 2), 'YYYYMMDD'),
           EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.conname = 'sealed'),
           i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false)
    FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE c.relkind = 'r' AND c.relname ~ '^(message|event)_[0-9]{8}$' AND c.relnamespace = current_schema()::regnamespace
    ORDER BY 2, 1 DESC
$$;

-- Run by every migrate_shards, so that new views are covered. A role belongs to the whole server: the first database
-- there makes it, and where we have no right to make roles, the next run finds the one that a superuser made.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'mqueue_reader') THEN
        BEGIN
            CREATE ROLE mqueue_reader NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- another deployment on this server was quicker
        END;
    END IF;
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    GRANT USAGE ON SCHEMA mq TO mqueue_reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA mq TO mqueue_reader;
END $$

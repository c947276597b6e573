-- Every transaction that changes settings, quotas or keys has a version of its own, whoever makes it: the row that holds
-- the version is locked until the change is committed, so versions become visible in their order, and a reader that asks
-- for what is above the last one that it saw misses nothing. That a key was used is no change.
CREATE TABLE settings_version (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    version bigint NOT NULL DEFAULT 1,
    reload bigint NOT NULL DEFAULT 1,
    txid xid8
);
COMMENT ON COLUMN settings_version.reload IS 'the last version in which rows went away: who is behind it reads anew';
INSERT INTO settings_version DEFAULT VALUES;

CREATE FUNCTION settings_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE settings_version SET version = version + 1, txid = pg_current_xact_id()
    WHERE txid IS DISTINCT FROM pg_current_xact_id();
    SELECT version INTO STRICT NEW.changed FROM settings_version;
    RETURN NEW;
END $$;

CREATE FUNCTION settings_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE settings_version SET version = version + 1, reload = version + 1;
    RETURN NULL;
END $$;

CREATE TRIGGER changed BEFORE INSERT OR UPDATE ON topic_settings FOR EACH ROW EXECUTE FUNCTION settings_changed();
CREATE TRIGGER changed BEFORE INSERT OR UPDATE ON namespace_quota FOR EACH ROW EXECUTE FUNCTION settings_changed();
CREATE TRIGGER changed
    BEFORE INSERT OR UPDATE OF kid, namespace_id, name, kind, scopes, material, expires_at, revoked_at ON namespace_key
    FOR EACH ROW EXECUTE FUNCTION settings_changed();

CREATE TRIGGER removed AFTER DELETE OR TRUNCATE ON topic_settings FOR EACH STATEMENT EXECUTE FUNCTION settings_removed();
CREATE TRIGGER removed AFTER DELETE OR TRUNCATE ON namespace_quota FOR EACH STATEMENT EXECUTE FUNCTION settings_removed();
CREATE TRIGGER removed AFTER DELETE OR TRUNCATE ON namespace_key FOR EACH STATEMENT EXECUTE FUNCTION settings_removed();

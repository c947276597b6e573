-- Slots that leave for another shard, are gone, have left no row behind, or come from one, by the number of the move in
-- the control database. Rows of slots that are gone, or not quite here, are nobody's to touch: the lease daemon passes over
-- them. That slots have left stays on record for good: whoever still believes that they are here is refused by it. In
-- `slots` the first bit is slot 0.
CREATE TABLE IF NOT EXISTS moving (
    move  bigint    NOT NULL PRIMARY KEY,
    term  bigint    NOT NULL,              -- of the mover that is at work: an earlier one must change nothing any more
    state text      NOT NULL CHECK (state IN ('leaving', 'gone', 'left', 'coming')),
    slots bit(1024) NOT NULL
);

-- What has changed in slots that leave, since copying them began: a message by its id, a topic by all, a key by its names.
CREATE TABLE IF NOT EXISTS moving_change (
    seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        bigint,
    namespace text,
    name      text
);

-- What has been copied to here as a whole, so that a mover that was killed goes on behind it.
CREATE TABLE IF NOT EXISTS moving_part (
    move bigint NOT NULL,
    part text   NOT NULL,
    rows bigint NOT NULL,
    PRIMARY KEY (move, part)
);

-- As `slot_of` in shards/routing.py: FNV-1a, then MurmurHash3's finalizer. Products are made of halves: bigint is signed.
CREATE OR REPLACE FUNCTION slot_of(namespace text, name text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    letters bytea := convert_to(namespace || ':' || name, 'UTF8');
    hash bigint := 2166136261;
BEGIN
    FOR place IN 0 .. length(letters) - 1 LOOP
        hash := ((hash # get_byte(letters, place)) * 16777619) & 4294967295;
    END LOOP;
    hash := hash # (hash >> 16);
    hash := ((hash & 65535) * 2246822507 + ((((hash >> 16) * 2246822507) & 65535) << 16)) & 4294967295;
    hash := hash # (hash >> 13);
    hash := ((hash & 65535) * 3266489909 + ((((hash >> 16) * 3266489909) & 65535) << 16)) & 4294967295;
    hash := hash # (hash >> 16);
    RETURN hash & 1023;
END $$;

-- The slots whose rows here are nobody's: those that are gone, and those that are still coming.
CREATE OR REPLACE FUNCTION hidden_slots() RETURNS bit LANGUAGE sql STABLE AS $$
    SELECT coalesce(bit_or(slots), 0::bit(1024)) FROM moving WHERE state IN ('gone', 'coming')
$$;

-- Before a row of a slot that leaves is written. While the mover holds the lock, and when the slot is gone, the writer is
-- refused; before, what he changes is noted. He looks whether it is gone when he has the lock, and keeps that until he has
-- committed, so nobody passes between the two. The mover itself is let pass.
CREATE OR REPLACE FUNCTION watch_slot() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    slot integer;
    mask bit(1024);
    is_here boolean;
    changed bigint;
BEGIN
    IF current_setting('mqueue.mover', true) = 'on' THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    END IF;
    IF TG_ARGV[0] = 'message' THEN
        IF TG_OP = 'DELETE' THEN
            changed := OLD.id;
        ELSE
            changed := NEW.id;
        END IF;
        slot := changed % 1024;
    ELSIF TG_ARGV[0] = 'key' THEN
        slot := slot_of(NEW.namespace, NEW.key);
    ELSE
        slot := slot_of(NEW.namespace, NEW.name);
    END IF;
    SELECT slots INTO mask FROM moving WHERE state <> 'coming' AND get_bit(slots, slot) = 1;
    IF FOUND THEN
        is_here := pg_try_advisory_xact_lock_shared(1836151660);
        SELECT is_here AND state = 'leaving', slots INTO is_here, mask FROM moving
        WHERE state <> 'coming' AND get_bit(slots, slot) = 1 ORDER BY state LIMIT 1;
        IF NOT is_here THEN
            RAISE EXCEPTION 'slot % leaves this shard', slot USING ERRCODE = 'MQ001', DETAIL = mask::text;
        END IF;
        IF TG_ARGV[0] = 'message' THEN
            INSERT INTO moving_change (id) VALUES (changed);
        ELSIF TG_ARGV[0] = 'key' THEN
            INSERT INTO moving_change (namespace, name) VALUES (NEW.namespace, NEW.key);
        ELSE
            INSERT INTO moving_change (id, namespace, name) VALUES (NEW.id, NEW.namespace, NEW.name);
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END $$;

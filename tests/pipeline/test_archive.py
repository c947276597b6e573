"""Days that are over go into the lake, each row as it was, and only then from the shard."""

import datetime
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import psycopg
import pytest

from mqueue.core.conf import Conf, conf
from mqueue.core.linux import GENTLY, LEAST_WEIGHT
from pipeline.archive import archive, seal
from pipeline.chunks import Chunk, arranged, copy_one
from pipeline.digests import sums
from pipeline.errors import Busy, Fenced, NothingToDo, PipelineError, VerificationFailed
from pipeline.gc import gc
from pipeline.layout import EVENT, LAYOUTS, MESSAGE
from pipeline.manifest import State, publish, take_up_to_archive
from pipeline.models import File, Partition
from pipeline.pull import BACKEND, make_way, pull
from pipeline.spark import Sessions
from pipeline.storage import Storage
from pipeline.turns import WRITING, turn
from pipeline.verify import verify
from shards.migrate import LONG_EACH
from shards.models import Deployment
from shards.retention import Connection, connected
from shards.sql import statement
from tests.pipeline.past import day_before, grow_older, rows_of, settle_some

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
DAYS = 12
NOBODY = "postgresql://nobody@127.0.0.1:1/nothing"
EXTREMES = """
UPDATE message SET ordering_key = 'o', concurrency_key = 'ç', ttl_ms = 9223372036854775807, max_retries = -32768,
                   enqueued_at = '1970-01-01 00:00:00.000001+00', deliver_after = '9999-12-31 23:59:59.999999+00'
WHERE id = (SELECT max(id) FROM message WHERE topic IN (SELECT id FROM topic WHERE namespace = %s))
"""
LONG = """
UPDATE message m SET payload = convert_to(repeat('é', size), 'UTF8'), payload_bytes = 2 * size
FROM (SELECT id, (ARRAY[2047, 2048, 2049, 50000])[row_number() OVER (ORDER BY id)] AS size
      FROM message WHERE topic IN (SELECT id FROM topic WHERE namespace = %(namespace)s)) sized
WHERE m.id = sized.id AND size IS NOT NULL
"""


@pytest.fixture
async def past(lake: Conf, namespace: str) -> str:
    """A namespace whose messages are of a day that is over."""
    await settle_some(lake, namespace)
    grow_older(lake, namespace, DAYS)
    for url in lake.shard_urls:
        with psycopg.connect(url) as connection:
            connection.execute(EXTREMES, [namespace])
    return namespace


def in_the_lake(conf: Conf, parent: str, namespace: str) -> list[dict[str, Any]]:
    storage, found = Storage(conf.lake.url), []
    for file in File.objects.filter(partition__parent=parent, retired_at=None):
        rows = storage.read(file.path).to_pylist()
        keys = [(row["namespace"], row["topic"], row["id"], row.get("at")) for row in rows]
        assert keys == sorted(keys)
        assert len(rows) == file.rows
        found += [row for row in rows if row["namespace"] == namespace]
    return found


def as_archived(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a shard under the names of the lake, with the same texts."""
    return {name: value for name, value in row.items() if name != "name"} | {
        "topic_id": row["topic"],
        "topic": row["name"],
    }


def order(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["id"], row.get("at"), row.get("kind"))


def test_every_column_of_every_row_is_in_the_lake(lake: Conf, past: str, sessions: Sessions, said: list[str]) -> None:
    archive(lake, sessions, said.append)
    for parent in LAYOUTS:
        expected = sorted(map(as_archived, rows_of(lake, parent, past)), key=order)
        found = sorted(in_the_lake(lake, parent, past), key=order)
        assert len(found) == len(expected) > 0
        for ours, theirs in zip(found, expected, strict=True):
            for name in {"headers", "retry"} & ours.keys():
                ours[name] = json.loads(ours[name] or "null")
            assert ours == theirs
    assert set(Partition.objects.values_list("state", flat=True)) == {State.PUBLISHED}
    verify(lake, sessions, said.append)
    with pytest.raises(NothingToDo):
        archive(lake, sessions, said.append)


def test_a_day_that_is_archived_takes_no_rows_and_loses_none(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    archive(lake, sessions, said.append)
    day = day_before(DAYS)
    with psycopg.connect(lake.shard_urls[0], autocommit=True) as connection:
        with pytest.raises(psycopg.errors.CheckViolation, match="sealed"):
            connection.execute(
                "INSERT INTO message (id, topic, day, payload_bytes, priority, is_json, payload) "
                "VALUES (1, 1, %s, 0, 5, false, '')",
                [day],
            )
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="sealed"):
            connection.execute("DELETE FROM message WHERE day = %s", [day])
        with pytest.raises(psycopg.errors.CheckViolation, match="sealed"):
            connection.execute("UPDATE message SET priority = 1 WHERE day = %s", [day])
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="sealed"):
            connection.execute(f"TRUNCATE event_{day:%Y%m%d}")  # type: ignore[arg-type]


def test_a_day_that_is_not_over_cannot_be_sealed(lake: Conf) -> None:
    with (
        psycopg.connect(lake.shard_urls[0]) as connection,
        pytest.raises(psycopg.errors.RaiseException, match="not over"),
    ):
        connection.execute("SELECT seal_partition('message', (now() AT TIME ZONE 'UTC')::date)")


def test_sealing_waits_for_whoever_is_writing_to_the_day(
    lake: Conf, past: str, sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that was inserted and not committed when the day was sealed would be missing in the lake."""
    monkeypatch.setattr("pipeline.archive.SEAL_TRIES", 2)
    with psycopg.connect(lake.shard_urls[0]) as writer:
        writer.execute(
            "INSERT INTO event (id, topic, epoch, attempt, kind, at) VALUES (5, 1, 1, 1, 2, %s)",
            [datetime.datetime.combine(day_before(DAYS), datetime.time(12), datetime.UTC)],
        )
        with pytest.raises(PipelineError, match="in use"):
            archive(lake, sessions, said.append)
        writer.rollback()
    waits = Partition.objects.get(shard=0, parent="event", day=day_before(DAYS))
    assert waits.state == State.OPEN
    assert set(Partition.objects.exclude(pk=waits.pk).values_list("state", flat=True)) == {State.PUBLISHED}
    archive(lake, sessions, said.append)


def test_each_fifth_try_to_seal_outlasts_a_vacuum(lake: Conf) -> None:
    """PostgreSQL ends one that is in the way, when somebody has waited for deadlock_timeout."""
    with psycopg.connect(lake.shard_urls[0]) as connection:
        query = "SELECT setting::int FROM pg_settings WHERE name = 'deadlock_timeout'"
        ends: Any = connection.execute(query).fetchone()
    tried: list[int] = []

    class Vacuumed:
        patience = 0

        def execute(self, query: str, given: Any = ()) -> None:
            if "lock_timeout" in query:
                self.patience = int(given[0].removesuffix("ms"))
            elif "seal_partition" in query:
                tried.append(self.patience)
                if self.patience <= ends[0]:
                    raise psycopg.errors.LockNotAvailable

    seal(cast("Connection", Vacuumed()), "event", day_before(DAYS))
    assert len(tried) == LONG_EACH
    assert max(tried[:-1]) <= 200


def test_a_shard_that_is_down_holds_up_no_other(lake: Conf, past: str, sessions: Sessions, said: list[str]) -> None:
    with pytest.raises(PipelineError, match=r"shard 1: .*fail"):
        archive(replace(lake, shard_urls=(lake.shard_urls[0], NOBODY)), sessions, said.append)
    assert set(Partition.objects.values_list("shard", "state")) == {(0, State.PUBLISHED)}
    archive(lake, sessions, said.append)
    assert set(Partition.objects.values_list("state", flat=True)) == {State.PUBLISHED}
    assert {shard for (shard,) in Partition.objects.values_list("shard")} == {0, 1}


def test_a_partition_that_cannot_be_copied_holds_up_no_other(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    folder = Path(lake.lake.url.removeprefix("file://")) / str(Deployment.objects.get().identity)
    folder.mkdir(parents=True)
    (folder / "event").write_text("in the way")
    with pytest.raises(PipelineError, match=r"A task failed: .*Not a directory"):
        archive(lake, sessions, said.append)
    states = set(Partition.objects.filter(files__isnull=False).values_list("parent", "state"))
    assert states == {("message", State.PUBLISHED)}
    (folder / "event").unlink()
    archive(lake, sessions, said.append)
    verify(lake, sessions, said.append)


def test_of_several_troubles_a_wrong_copy_is_the_worst(
    lake: Conf, past: str, sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the shard that has steps of the namespace."""
    flipped = "measure_event"
    events = "SELECT FROM event WHERE topic IN (SELECT id FROM topic WHERE namespace = %s)"
    urls = [NOBODY] * len(lake.shard_urls)
    for shard, url in enumerate(lake.shard_urls):
        with connected(url) as connection:
            if connection.execute(events, [past]).rowcount:
                urls[shard] = url
                break
    monkeypatch.setattr(
        "pipeline.archive.statement", lambda name: (with_a_flipped_bit if name == flipped else str)(statement(name))
    )
    with pytest.raises(VerificationFailed, match="other troubles"):
        archive(replace(lake, shard_urls=tuple(urls)), sessions, said.append)
    states = set(Partition.objects.filter(rows__gt=0).values_list("parent", "state"))
    assert states == {("message", State.PUBLISHED)}
    assert Partition.objects.filter(parent="event", state=State.ARCHIVING).exists()


def test_a_copy_that_differs_is_not_published(
    lake: Conf, past: str, sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bit of one row, in what PostgreSQL says it has."""
    monkeypatch.setattr("pipeline.archive.statement", lambda name: with_a_flipped_bit(statement(name)))
    with pytest.raises(VerificationFailed):
        archive(lake, sessions, said.append)
    assert not File.objects.exists()
    monkeypatch.undo()
    archive(lake, sessions, said.append)
    with pytest.raises(NothingToDo):
        verify_only_what_is_listed(lake, said)
    verify(lake, sessions, said.append)


def test_a_file_that_cannot_be_read_back_is_a_wrong_copy(lake: Conf, past: str) -> None:
    class Damaging(Storage):
        def write(self, path: str, table: Any) -> int:
            size = super().write(path, table)
            (Path(self.url.removeprefix("file://")) / path).write_bytes(b"PAR1")
            return size

    sealed = Partition.objects.create(shard=0, parent="message", day=day_before(DAYS), state=State.SEALED)
    mine = take_up_to_archive(sealed)
    chunk = Chunk("d", mine.parent, mine.shard, mine.day, mine.term, 0, 1 << 60, names_of(mine))
    rows = [SimpleNamespace(**row) for row in copy_one(0, chunk, Damaging(lake.lake.url)).to_pylist()]
    with pytest.raises(VerificationFailed):
        publish(mine, rows, {})
    assert not File.objects.exists()


def with_a_flipped_bit(query: str) -> str:
    return query.replace("bit_xor(hash)", "bit_xor(hash) # 1")


@pytest.mark.parametrize("sampled_pages", [500, 1e-9], ids=["all", "none"])
def test_a_large_day_is_copied_in_pieces(
    lake: Conf, past: str, sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch, sampled_pages: float
) -> None:
    """Also where the sample told nothing of how large it is."""
    monkeypatch.setattr("pipeline.archive.CHUNK_BYTES", 5_000)
    monkeypatch.setattr("pipeline.archive.SAMPLED_PAGES", sampled_pages)
    for url in lake.shard_urls:
        with psycopg.connect(url) as connection:
            connection.execute(LONG, {"namespace": past})
    archive(lake, sessions, said.append)
    files = File.objects.filter(partition__parent="message")
    assert len(files) > len(lake.shard_urls)
    assert max(sum(part.bytes for part in file.parts.all()) for file in files) <= max(2 * 5_000, 100_000)
    found = in_the_lake(lake, "message", past)
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in rows_of(lake, "message", past))
    verify(lake, sessions, said.append)


def verify_only_what_is_listed(lake: Conf, said: list[str]) -> None:
    """The first gc finds what the failed run left; the second finds nothing."""
    gc(lake, said.append)
    gc(lake, said.append)


@pytest.fixture
def damaged(lake: Conf, past: str, sessions: Sessions, said: list[str]) -> Iterator[Path]:
    archive(lake, sessions, said.append)
    file = File.objects.filter(partition__parent="message").order_by("-rows").first()
    assert file
    yield Path(lake.lake.url.removeprefix("file://")) / file.path


def test_damage_to_the_lake_is_found(lake: Conf, damaged: Path, sessions: Sessions, said: list[str]) -> None:
    data = bytearray(damaged.read_bytes())
    for place in range(len(data) // 3, len(data) // 3 + 64):  # one bit may lie where no row does
        data[place] ^= 0xFF
    damaged.write_bytes(bytes(data))
    with pytest.raises(VerificationFailed):
        verify(lake, sessions, said.append)


def test_a_file_that_is_gone_is_found(lake: Conf, damaged: Path, sessions: Sessions, said: list[str]) -> None:
    damaged.unlink()
    with pytest.raises(VerificationFailed):
        verify(lake, sessions, said.append)


def test_two_archivers_take_turns(lake: Conf, past: str, sessions: Sessions, said: list[str]) -> None:
    with turn(lake), pytest.raises(Busy):
        archive(lake, sessions, said.append)
    archive(lake, sessions, said.append)


def test_an_archiver_that_slept_through_its_turn_publishes_nothing(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    archive(lake, sessions, said.append)
    partition = Partition.objects.filter(parent="message", rows__gt=0).first()
    assert partition
    before = list(partition.files.values_list("path", flat=True))
    Partition.objects.filter(pk=partition.pk).update(state=State.ARCHIVING)
    asleep, awake = (Partition.objects.get(pk=partition.pk) for _ in range(2))
    take_up_to_archive(awake)  # the next one's turn
    expected = sums(copy_of(partition), LAYOUTS[partition.parent])
    rows, wanted = expected_rows(expected), {one.topic: one for one in expected}
    with pytest.raises(Fenced):
        take_up_to_archive(asleep)
    with pytest.raises(Fenced):
        publish(asleep, rows, wanted)
    with pytest.raises(PipelineError, match="files in the lake already"):
        publish(awake, rows, wanted)
    assert list(partition.files.values_list("path", flat=True)) == before


@pytest.mark.parametrize("state", [State.OPEN, State.PUBLISHED, State.DROPPED])
def test_only_what_is_sealed_is_taken_up_to_be_archived(lake: Conf, state: str) -> None:
    partition = Partition.objects.create(shard=0, parent="event", day=day_before(DAYS), state=state)
    with pytest.raises(Fenced):
        take_up_to_archive(partition)
    partition.refresh_from_db()
    assert (partition.state, partition.term) == (state, 0)
    Partition.objects.update(state=State.ARCHIVING)  # a run was killed
    partition.refresh_from_db()
    assert take_up_to_archive(partition).term == 1


def test_who_seals_a_day_that_was_published_meanwhile_leaves_it_so(
    lake: Conf, past: str, sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def seal_and_sleep(connection: Any, parent: str, day: datetime.date) -> None:
        seal(connection, parent, day)
        Partition.objects.filter(parent=parent, day=day).update(state=State.PUBLISHED, term=2)

    monkeypatch.setattr("pipeline.archive.seal", seal_and_sleep)
    with pytest.raises(Fenced):
        archive(lake, sessions, said.append)
    assert not Partition.objects.filter(state=State.SEALED).exists()


def test_a_run_that_has_lost_its_lock_publishes_nothing_and_the_next_one_does(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    def say(text: str) -> None:
        said.append(text)
        if text == "copied":
            lose_lock(lake)

    with pytest.raises(Fenced, match="lock was lost"):
        archive(lake, sessions, say)
    assert Fenced.exit_code == Busy.exit_code
    assert not File.objects.exists()
    assert State.PUBLISHED not in Partition.objects.values_list("state", flat=True)
    archive(lake, sessions, said.append)
    verify(lake, sessions, said.append)


def lose_lock(conf: Conf) -> None:
    with psycopg.connect(conf.control_url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks JOIN pg_database d ON d.oid = database "
            "WHERE locktype = 'advisory' AND objid = %s AND datname = current_database()",
            [WRITING],
        )
        assert ended.fetchall() == [(True,)]


def copy_of(partition: Partition) -> Any:
    table = pull(LAYOUTS[partition.parent], partition.shard, partition.day, 0, 1 << 60)
    return arranged(table, names_of(partition), LAYOUTS[partition.parent])


def names_of(partition: Partition) -> dict[int, tuple[str, str]]:
    with psycopg.connect(conf().shard_urls[partition.shard]) as connection:
        return {row[0]: (row[1], row[2]) for row in connection.execute("SELECT id, namespace, name FROM topic")}


def expected_rows(expected: list[Any]) -> list[Any]:
    return [SimpleNamespace(path="x", size=1, namespace="n", name="t", **one.as_dict()) for one in expected]


def test_gc_deletes_what_nobody_will_publish_and_nothing_else(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    archive(lake, sessions, said.append)
    partition = Partition.objects.filter(parent="message", rows__gt=0).first()
    assert partition
    table = copy_of(partition)
    chunk = Chunk(
        str(Deployment.objects.get().identity), "message", partition.shard, partition.day, partition.term, 0, 0, {}
    )
    storage = Storage(lake.lake.url)
    orphan, ahead = chunk.new_path(), replace(chunk, term=partition.term + 1).new_path()
    foreign = "another-deployment/message/day=2020-01-01/shard=0/1-" + "0" * 32 + ".parquet"
    listed = set(File.objects.values_list("path", flat=True))
    for path in (orphan, ahead, foreign):
        storage.write(path, table)
    gc(lake, said.append)
    assert not storage.exists(orphan)
    assert storage.exists(ahead)
    assert storage.exists(foreign)
    assert all(storage.exists(path) for path in listed)


def test_a_column_that_the_archive_does_not_know_stops_it(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    with psycopg.connect(lake.shard_urls[1], autocommit=True) as connection:
        connection.execute("ALTER TABLE message ADD COLUMN new_thing text")
        try:
            with pytest.raises(PipelineError, match="new_thing"):
                archive(lake, sessions, said.append)
        finally:
            connection.execute("ALTER TABLE message DROP COLUMN new_thing")


def test_the_layouts_name_every_column_of_the_shards(lake: Conf) -> None:
    with psycopg.connect(lake.shard_urls[0]) as connection:
        for layout in (MESSAGE, EVENT):
            rows = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s", [layout.parent]
            )
            assert {row[0] for row in rows.fetchall()} == layout.columns_of_shard


def test_its_session_on_the_server_of_this_machine_gives_way_too(lake: Conf) -> None:
    with psycopg.connect(lake.shard_urls[0]) as connection:
        backend, is_local = connection.execute(BACKEND).fetchone() or (0, False)
        assert is_local
        before = os.getpriority(os.PRIO_PROCESS, backend)
        make_way(backend, is_local=False)  # a number of another machine's
        assert os.getpriority(os.PRIO_PROCESS, backend) == before
        make_way(backend, is_local=True)
        if os.geteuid() in (0, psutil.Process(backend).uids().effective):
            assert os.getpriority(os.PRIO_PROCESS, backend) == max(GENTLY, before)
            group = Path(f"/proc/{backend}/autogroup")
            assert not group.exists() or group.read_text().split()[-1] == str(LEAST_WEIGHT)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    make_way(os.getpid(), is_local=True)  # no session of a server
    assert os.getpriority(os.PRIO_PROCESS, 0) == before

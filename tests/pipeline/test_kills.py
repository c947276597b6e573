"""SIGKILL at every step of what writes the lake: the next run gives the same lake, and gc leaves nothing else."""

import signal
import subprocess
import time

import psycopg
import pytest

from tests.pipeline.past import day_before, grow_older, rows_of, settle_all, settle_some
from tests.pipeline.runs import Runs, kill, kill_at

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(1200)]  # many starts of a JVM
STEPS = ("measured", "copying", "copied", "published")


def require_whole(runs: Runs, *namespaces: str) -> None:
    """The lake has what the shards have, each file is right, and no other file is left."""
    runs.end("gc")
    assert runs.end("gc") == 3
    assert runs.end("verify") == 0
    assert runs.listed() == runs.files()
    require_rows(runs, *namespaces)


def require_rows(runs: Runs, *namespaces: str) -> None:
    for parent in ("message", "event"):
        assert runs.rows_in_use(parent) == sum(len(rows_of(runs.conf, parent, one)) for one in namespaces)


async def test_a_run_that_is_killed_at_any_step_is_done_again_and_the_lake_is_the_same(runs: Runs) -> None:
    assert kill_at(runs.start("archive"), "sealed") == -signal.SIGKILL
    assert kill_at(runs.start("archive"), "copying", "java") not in (0, 3, 4, 5, -signal.SIGKILL)
    for step in STEPS:
        assert kill_at(runs.start("archive"), step) == -signal.SIGKILL
        assert runs.in_use() <= runs.files()
    runs.end("archive")
    require_whole(runs, "acme")
    assert runs.rows("SELECT DISTINCT state FROM lake_partition") == [("published",)]


async def test_of_two_at_once_one_does_the_work(runs: Runs) -> None:
    both = [runs.start("archive") for _ in range(2)]
    codes = []
    for process in both:
        output, _ = process.communicate()
        assert process.returncode in (0, 3, 4), output
        codes.append(process.returncode)
    assert codes.count(0) == 1
    require_whole(runs, "acme")


async def test_compact_and_erase_may_be_killed_at_any_step_too(runs: Runs) -> None:
    await settle_some(runs.conf, "other")
    grow_older(runs.conf, "other", 9)
    runs.archive_into_small_files()
    for step in ("writing", "written", "rewrote"):
        assert kill_at(runs.start("compact"), step) == -signal.SIGKILL
        assert runs.in_use() <= runs.files()
        require_rows(runs, "acme", "other")
    assert runs.end("compact") in (0, 3)
    require_whole(runs, "acme", "other")
    erase = ("erase", "--namespace", "other", "--yes", "--now")
    for step in ("writing", "written", "rewrote", "the roll-ups"):
        assert kill_at(runs.start(*erase), step) == -signal.SIGKILL
        assert runs.in_use() <= runs.files()
    assert runs.end(*erase) in (0, 3)
    require_whole(runs, "acme")
    assert runs.rows("SELECT DISTINCT namespace FROM lake_part") == [("acme",)]


def wait_until_it_detaches(url: str, process: "subprocess.Popen[str]") -> None:
    query = "SELECT pid FROM pg_stat_activity WHERE query ~ '^ALTER TABLE .* DETACH' AND state = 'active'"
    deadline = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute(query).fetchone():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)


async def test_retain_may_be_killed_in_the_middle_of_a_drop_and_behind_it(runs: Runs) -> None:
    await settle_all(runs.conf, "acme")
    runs.end("archive")
    rows = {parent: runs.rows_in_use(parent) for parent in ("message", "event")}
    with psycopg.connect(runs.conf.shard_urls[0]) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM event")  # a partition is not detached while somebody may look at it
        with runs.start("retain") as process:
            wait_until_it_detaches(runs.conf.shard_urls[0], process)
            kill(process)
        reader.rollback()
    assert kill_at(runs.start("retain"), "dropped") == -signal.SIGKILL
    assert runs.end("retain") in (0, 3)
    for shard in runs.conf.shard_urls:
        with psycopg.connect(shard) as connection:
            left = connection.execute("SELECT parent FROM log_partitions() WHERE day <= %s", [day_before(9)]).fetchall()
        assert ("event",) not in left
    ((dropped,),) = runs.rows("SELECT count(*) FROM lake_partition WHERE parent = 'event' AND state <> 'dropped'")
    assert dropped == 0
    assert {parent: runs.rows_in_use(parent) for parent in rows} == rows
    assert runs.end("verify") == 0

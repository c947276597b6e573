"""SIGKILL at every step of an archive: the next run gives the same lake, and gc leaves nothing else."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from mqueue.core.conf import ROOT, Conf
from tests.pipeline.past import grow_older, rows_of, settle_some
from tests.servers import conf_of, running, worker_number

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(400)]  # many starts of a JVM
DAYS = 9
STEPS = ("measured", "copying", "copied", "published")


class Runs:
    def __init__(self, prefix: str, folder: Path) -> None:
        self.folder = folder / "lake"
        self.conf: Conf = conf_of(prefix, worker_number(), MQUEUE_DATA=str(folder), LAKE_URL=str(self.folder))
        settings = {"MQUEUE_DATA": str(folder), "LAKE_URL": str(self.folder), "LAKE_GRACE_HOURS": "0"}
        self.env = dict(os.environ) | running().environment(prefix, worker_number()) | settings

    def start(self, *verb: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(ROOT / "manage.py"), "pipeline", *verb]
        return subprocess.Popen(
            command, env=self.env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def end(self, *verb: str) -> int:
        with self.start(*verb) as process:
            output = process.stdout.read() if process.stdout else ""
        assert process.returncode in (0, 3, 4, 5), output
        return process.returncode

    def rows(self, question: str) -> list[Any]:
        with psycopg.connect(self.conf.control_url) as connection:
            return connection.execute(question).fetchall()  # type: ignore[call-overload, no-any-return]

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*.parquet")}


@pytest.fixture
async def runs(fresh_databases: str, folder: Path) -> Runs:
    runs = Runs(fresh_databases, folder)
    await settle_some(runs.conf, "acme")
    grow_older(runs.conf, "acme", DAYS)
    return runs


def family_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """The driver, its JVM and the Python workers."""
    parent = psutil.Process(process.pid)
    return [*parent.children(recursive=True), parent]


def kill_at(process: "subprocess.Popen[str]", step: str, named: str = "") -> int:
    """The whole family at once, as when the machine goes, or those of a name alone; the driver's exit code."""
    for line in process.stdout or ():
        if line.startswith(step):
            for one in family_of(process):
                if named in one.name():
                    one.send_signal(signal.SIGKILL)
            break
    process.communicate()
    return process.returncode


async def test_a_run_that_is_killed_at_any_step_is_done_again_and_the_lake_is_the_same(runs: Runs) -> None:
    assert kill_at(runs.start("archive"), "sealed") == -signal.SIGKILL
    assert kill_at(runs.start("archive"), "copying", "java") not in (0, 3, 4, 5, -signal.SIGKILL)
    for step in STEPS:
        assert kill_at(runs.start("archive"), step) == -signal.SIGKILL
        listed = {path for (path,) in runs.rows("SELECT path FROM lake_file")}
        assert listed <= runs.files()
    runs.end("archive")
    runs.end("gc")
    assert runs.end("gc") == 3
    assert runs.end("verify") == 0
    listed = {path for (path,) in runs.rows("SELECT path FROM lake_file")}
    assert listed == runs.files()
    for parent in ("message", "event"):
        ((held,),) = runs.rows(
            "SELECT sum(f.rows) FROM lake_file f JOIN lake_partition p ON p.id = f.partition_id "
            f"WHERE p.parent = '{parent}'"
        )
        assert held == len(rows_of(runs.conf, parent, "acme"))
    assert runs.rows("SELECT DISTINCT state FROM lake_partition") == [("published",)]

"""Verbs of the pipeline in processes of their own, on databases and a lake of their own; and how they die."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from mqueue.core.conf import ROOT, Conf
from tests.servers import conf_of, running, worker_number

SMALL_FILES = """
import django
django.setup()
import pipeline.archive
pipeline.archive.CHUNK_BYTES = 4_000
from django.core.management import call_command
call_command("pipeline", "archive")
"""


class Runs:
    def __init__(self, prefix: str, folder: Path) -> None:
        self.folder = folder / "lake"
        self.conf: Conf = conf_of(prefix, worker_number(), MQUEUE_DATA=str(folder), LAKE_URL=str(self.folder))
        settings = {"MQUEUE_DATA": str(folder), "LAKE_URL": str(self.folder), "LAKE_GRACE_HOURS": "0"}
        settings["DJANGO_SETTINGS_MODULE"] = "mqueue.settings"
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

    def archive_into_small_files(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", SMALL_FILES], env=self.env, cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def rows(self, question: str) -> list[Any]:
        with psycopg.connect(self.conf.control_url) as connection:
            return connection.execute(question).fetchall()  # type: ignore[call-overload, no-any-return]

    def listed(self) -> set[str]:
        return {path for (path,) in self.rows("SELECT path FROM lake_file")}

    def in_use(self) -> set[str]:
        """Of the others, the bytes may be gone a moment before their row."""
        return {path for (path,) in self.rows("SELECT path FROM lake_file WHERE retired_at IS NULL")}

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*.parquet")}

    def rows_in_use(self, parent: str) -> int:
        ((held,),) = self.rows(
            "SELECT coalesce(sum(f.rows), 0) FROM lake_file f JOIN lake_partition p ON p.id = f.partition_id "
            f"WHERE f.retired_at IS NULL AND p.parent = '{parent}'"
        )
        return int(held)


def family_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """The driver, its JVM and the Python workers."""
    parent = psutil.Process(process.pid)
    return [*parent.children(recursive=True), parent]


def workers_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Spark's Python workers: the daemons, and their forks."""
    found = []
    for one in family_of(process):
        with suppress(psutil.Error):  # it has ended meanwhile
            if "pyspark.daemon" in one.cmdline():
                found.append(one)
    return found


def kill(process: "subprocess.Popen[str]", named: str = "") -> None:
    """The whole family at once, as when the machine goes, or those of a name alone."""
    for one in family_of(process):
        if named in one.name():
            one.send_signal(signal.SIGKILL)


def until(process: "subprocess.Popen[str]", step: str) -> None:
    """It has said that it is there."""
    for line in process.stdout or ():
        if line.startswith(step):
            return


def kill_at(process: "subprocess.Popen[str]", step: str, named: str = "") -> int:
    """The driver's exit code."""
    until(process, step)
    kill(process, named)
    process.communicate()
    return process.returncode

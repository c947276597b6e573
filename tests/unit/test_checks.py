"""What `manage.py check` says of a configuration."""

from pathlib import Path

import pytest

from mqueue.checks import configuration_problems, wal_problems
from mqueue.core.conf import read

GOOD = {"JWT_SECRET": "s" * 40}


def found(**env: str) -> set[str]:
    return {problem.id or "" for problem in configuration_problems(read(GOOD | env))}


def test_the_defaults_raise_nothing() -> None:
    assert found() == set()


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"JWT_SECRET": "s" * 31}, "mqueue.W001"),
        ({"MQUEUE_POOL_MIN": "9", "MQUEUE_POOL_MAX": "8"}, "mqueue.E002"),
        ({"MQUEUE_LOCK_TIMEOUT_MS": "20000"}, "mqueue.W003"),
        ({"MQUEUE_RETENTION_DAYS": "1"}, "mqueue.E004"),
        ({"MQUEUE_DEDUPE_WINDOW_MS": str(7 * 86_400_000)}, "mqueue.E004"),
        ({"DATABASE_URLS": "postgresql://h/a", "CONTROL_DATABASE_URL": "postgresql://u@h/a"}, "mqueue.E005"),
    ],
)
def test_what_cannot_work_is_named(env: dict[str, str], problem: str) -> None:
    assert found(**env) == {problem}


def test_a_segment_that_was_set_aside_is_named(tmp_path: Path) -> None:
    conf = read(GOOD | {"WAL_DIR": str(tmp_path)})
    assert list(wal_problems(conf)) == []
    (tmp_path / "quarantine").mkdir()
    (tmp_path / "quarantine/x.wal").touch()
    (found,) = wal_problems(conf)
    assert found.id == "mqueue.W030"
    assert "x.wal" in found.msg


def test_a_folder_for_the_log_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (found,) = wal_problems(read(GOOD | {"WAL_DIR": str(tmp_path / "file/wal")}))
    assert found.id == "mqueue.E031"

"""A fresh clone in an empty folder: `make run`, the lines that it prints, Ctrl-C, and `make run` again."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqueue.core.conf import ROOT
from tests.service import Service

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]


@pytest.fixture
def clone() -> Iterator[Path]:
    """What git would hand out, with the changes that are not committed yet."""
    folder = Path(tempfile.mkdtemp(prefix="mqueue-clone-"))
    folder.chmod(0o755)
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listing.stdout.decode().split("\0")):
        target = folder / "mqueue" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, target)
    yield folder / "mqueue"
    shutil.rmtree(folder, ignore_errors=True)


def python_for(prefix: list[str]) -> str:
    """One that this user can run, and that can make virtual environments."""
    for python in (sys.executable, "/usr/bin/python3"):
        code = "import ensurepip, venv, sys; assert (3, 11) <= sys.version_info[:2] <= (3, 13)"
        probe = [*prefix, "/bin/sh", "-c", 'exec "$0" -c "$1"', python, code]
        if subprocess.run(probe, capture_output=True, cwd="/").returncode == 0:
            return python
    pytest.skip("this user can run no Python 3.11 to 3.13 with venv")


@pytest.mark.parametrize("who", ["myself", "nobody"])
def test_a_newcomer_gets_going(clone: Path, who: str) -> None:
    prefix: list[str] = []
    if who == "nobody":
        if os.geteuid() != 0:
            pytest.skip("needs root, to play another user")
        account = pwd.getpwnam("nobody")
        prefix = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        subprocess.run(["chown", "-R", f"{account.pw_uid}:{account.pw_gid}", clone.parent], check=True)
    service = Service(
        clone / ".mqueue",
        {"HOME": str(clone.parent)},
        [*prefix, "make", f"PYTHON={python_for(prefix)}", "run"],
    )
    service.log = clone.parent / "terminal.log"
    del service.env["MQUEUE_DATA"]
    try:
        service.start(wait=False, cwd=clone)
        service.until(lambda: "Ctrl-C stops everything" in service.last_output(), 240, "the first start is done")
        assert "installing requirements.txt" in service.output()
        for curl, expected in zip(printed_lines(service), EXPECTED, strict=True):
            done = subprocess.run(
                f"export TOKEN={service.shown_token()}; {curl}",
                shell=True,
                capture_output=True,
                text=True,
                cwd=clone.parent,
            )
            assert re.fullmatch(expected, done.stdout.strip()), (curl, done.stdout, done.stderr)
        stop(service)
        began = time.monotonic()
        service.start(wait=False, cwd=clone)
        service.until(lambda: "Ctrl-C stops everything" in service.last_output(), 60, "the second start is done")
        print(f"second start: {time.monotonic() - began:.1f} s")
        assert "install" not in service.last_output()
        stop(service)
    finally:
        service.end()


EXPECTED = (
    r"\[\d+\]",
    r'\[\{"id":\d+,.*"receipt":"\S+","body":\{"text": "my first message"\}\}\]',
    r'\[\{"id":\d+,"state":"acked"\}\]',
)


def printed_lines(service: Service) -> list[str]:
    """The commands, each with its continuation lines."""
    return re.findall(r"^    (curl (?:.*\\\n)*.*)$", service.last_output(), re.MULTILINE)


def stop(service: Service) -> None:
    """As a terminal does it: Ctrl-C reaches make and everything in its process group."""
    assert service.process
    os.killpg(service.process.pid, signal.SIGINT)
    service.process.wait(30)
    assert "mqueue: stopped" in service.last_output()
    assert service.descendants() == []

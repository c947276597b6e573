"""Make `.venv` and install the pinned requirements into it. Standard library only: it runs before they exist.

    python3 launch/install.py [GROUP ...]      groups: base (default), dev, pipeline

A group that is installed already costs a few milliseconds. uv does the work, four times faster than pip;
where uv cannot reach its index (a mirror that only pip.conf names), pip does.
"""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
FILES = {
    "bootstrap": "requirements-bootstrap.txt",
    "base": "requirements.txt",
    "dev": "requirements-dev.txt",
    "pipeline": "requirements-pipeline.txt",
}
OLDEST, NEWEST = (3, 11), (3, 13)


def main(groups: list[str]) -> None:
    for group in groups:
        if group not in FILES:
            sys.exit(f"install: no group {group!r}; there are {', '.join(FILES)}")
    if all(is_installed(group) for group in groups):
        return
    with one_at_a_time():
        if not is_current_venv():
            make_venv()
        for group in groups:
            if not is_installed(group):
                install(group)


def is_current_venv() -> bool:
    """A venv copied from elsewhere, half made, without pip, or whose Python is gone, is made anew."""
    if not PYTHON.exists():
        return False
    probe = subprocess.run([PYTHON, "-c", "import sys, pip; print(sys.prefix)"], capture_output=True, text=True)
    return probe.returncode == 0 and Path(probe.stdout.strip()).resolve() == VENV.resolve()


def make_venv() -> None:
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        sys.exit(
            f"install: mqueue needs Python {dotted(OLDEST)} to {dotted(NEWEST)}, and {sys.executable} is "
            f"{dotted(sys.version_info[:3])}. Name another with: make PYTHON=/path/to/python3.12 ..."
        )
    say(f"making .venv with Python {dotted(sys.version_info[:3])}")
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV])
    if done.returncode:
        sys.exit("install: `python -m venv` failed; on Debian and Ubuntu: apt install python3-venv")


def install(group: str) -> None:
    requirements = ROOT / FILES[group]
    say(f"installing {requirements.name}")
    began = time.monotonic()
    if group == "bootstrap" or not with_uv(requirements):
        with_pip(requirements)
    if group == "pipeline":
        keep_classes()
    stamp(group).write_text(fingerprint(group))
    say(f"installed {requirements.name} in {time.monotonic() - began:.0f} s")


def keep_classes() -> None:
    """Spark starts in half the time with them, and does without where that fails."""
    say("keeping the classes that Spark loads, once")
    subprocess.run([PYTHON, "-m", "pipeline.classes"], cwd=ROOT, capture_output=True)


def with_uv(requirements: Path) -> bool:
    if not is_installed("bootstrap"):
        install("bootstrap")
    uv: list[str | Path] = [
        VENV / "bin" / "uv",
        "pip",
        "install",
        "--python",
        PYTHON,
        "--require-hashes",
        "-r",
        requirements,
    ]
    if subprocess.run(uv).returncode == 0:
        return True
    say("uv could not install it; trying pip")
    return False


def with_pip(requirements: Path) -> None:
    pip: list[str | Path] = [
        PYTHON,
        "-m",
        "pip",
        "install",
        "--require-hashes",
        "--disable-pip-version-check",
        "-q",
        "-r",
        requirements,
    ]
    if subprocess.run(pip).returncode:
        sys.exit(f"install: pip could not install {requirements.name}; its messages are above")


def is_installed(group: str) -> bool:
    try:
        return stamp(group).read_text() == fingerprint(group) and PYTHON.exists()
    except FileNotFoundError:
        return False


def stamp(group: str) -> Path:
    return VENV / f".installed-{group}"


def fingerprint(group: str) -> str:
    return hashlib.sha256((ROOT / FILES[group]).read_bytes() + str(VENV).encode()).hexdigest()


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """`make test` beside `make run` in a new clone: the second waits for the first."""
    with open(ROOT / ".install.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another install is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def say(text: str) -> None:
    print(f"install: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    main(sys.argv[1:] or ["base"])

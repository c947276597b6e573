"""WAL_DIR: a folder for each writer, whose lock says that its process lives, and the segments that were set aside.

    WAL_DIR/writers/WRITER/lock
    WAL_DIR/writers/WRITER/0/00000001.wal               a log for each shard
    WAL_DIR/quarantine/WRITER-0-00000001.wal            and beside it, in a .txt, what is wrong with it

The kernel gives a lock back however its holder dies. Who finds a writer's lock free inherits its logs.
"""

import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from mqueue.wal.segments import SUFFIX

log = logging.getLogger(__name__)
LOCK = "lock"
UNBORN = ".new-"
UNBORN_S = 3600.0  # a folder whose maker died before it had its name


@dataclass(slots=True)
class WriterFolder:
    """One that we hold the lock of."""

    writer: UUID
    path: Path
    lock: int

    def log_of(self, shard: int) -> Path:
        return self.path / str(shard)

    def shards(self) -> list[int]:
        return sorted(int(path.name) for path in self.path.iterdir() if path.name.isdigit())

    def release(self) -> None:
        """Whoever looks next inherits it."""
        os.close(self.lock)

    def remove(self) -> None:
        """The lock last: until then nobody takes half of it for a whole."""
        for shard in self.shards():
            shutil.rmtree(self.log_of(shard))
        (self.path / LOCK).unlink()
        try:
            with contextlib.suppress(FileNotFoundError):  # who looks for the lock meanwhile tidies up
                self.path.rmdir()
        finally:
            os.close(self.lock)


@dataclass(frozen=True, slots=True)
class Usage:
    bytes: int
    quarantined: int


class WalDir:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.writers, self.quarantine = path / "writers", path / "quarantine"

    def make_writer(self) -> WriterFolder:
        """A new one, ours. It gets its name when its lock is held: nobody can take it for an orphan."""
        self.writers.mkdir(mode=0o700, parents=True, exist_ok=True)
        writer = UUID(bytes=secrets.token_bytes(16), version=4)
        unborn = self.writers / f"{UNBORN}{writer.hex}"
        unborn.mkdir(mode=0o700)
        lock = os.open(unborn / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        path = self.writers / writer.hex
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(lock, str(os.getpid()).encode())
            unborn.rename(path)
            sync_folder(self.writers)
        except OSError:  # a full disk: whoever tries again must not leave a folder and a file each time
            os.close(lock)
            shutil.rmtree(unborn, ignore_errors=True)
            shutil.rmtree(path, ignore_errors=True)
            raise
        return WriterFolder(writer, path, lock)

    def inherit(self) -> Iterator[WriterFolder]:
        """Those whose process has died. They are ours now."""
        for path in sorted(self.writers.glob("*")):
            if path.name.startswith(UNBORN):
                _forget_unborn(path)
            elif len(path.name) == len(UUID(int=0).hex) and (lock := _try_lock(path)) is not None:
                yield WriterFolder(UUID(hex=path.name), path, lock)

    def set_aside(self, segment: Path, reason: str) -> None:
        """A second name in the quarantine. The first one stays, for as long as what is intact in it is needed."""
        self.quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
        writer, shard = segment.parent.parent.name, segment.parent.name
        aside = self.quarantine / f"{writer}-{shard}-{segment.name}"
        with contextlib.suppress(FileExistsError):  # by who began this and died
            os.link(segment, aside)
            log.error("the segment %s of the write-ahead log is set aside as %s: %s", segment, aside, reason)
        aside.with_suffix(".txt").write_text(f"{reason}\n")
        sync_folder(self.quarantine)

    def set_aside_for_good(self, segment: Path, reason: str) -> None:
        """Nothing in it is of use to us."""
        self.set_aside(segment, reason)
        segment.unlink()

    def quarantined(self) -> list[Path]:
        return sorted(self.quarantine.glob(f"*{SUFFIX}"))

    def usage(self) -> Usage:
        """Of all writers of the node."""
        size = 0
        for path in self.writers.glob(f"*/*/*{SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                size += path.stat().st_size
        return Usage(size, len(self.quarantined()))


def is_live(writer: Path) -> bool:
    """Whether the process of a writer's folder is there."""
    lock = _try_lock(writer)
    if lock is not None:
        os.close(lock)
    return lock is None


def sync_folder(path: Path) -> None:
    """So that a new name in it outlives a crash of the machine."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _try_lock(path: Path) -> int | None:
    """None where somebody holds it, or where there is no lock: whose that is, nobody can tell."""
    try:
        lock = os.open(path / LOCK, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        with contextlib.suppress(OSError):
            path.rmdir()  # who removed it died just before this
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    if (path / LOCK).exists():
        return lock
    os.close(lock)  # its folder was removed while we came
    return None


def _forget_unborn(path: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > UNBORN_S:
            (path / LOCK).unlink(missing_ok=True)
            path.rmdir()

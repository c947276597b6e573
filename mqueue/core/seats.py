"""Where a process keeps its numbers: in files that only it writes, and that outlive it.

prometheus_client would name them by the pid. Pids of two containers collide, and every process that dies would leave
files behind for good. So a process takes a seat: the lowest number whose lock nobody holds. The kernel gives a lock
back however its holder dies, and the next one to sit there counts on where the last one ended: no counter goes
backwards, and there are no more files than there were processes at one time.
"""

import contextlib
import fcntl
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.values import MutexValue

KINDS = ("counter", "histogram")
ROOM = 1 << 20  # of each file: five thousand numbers


class Seat:
    """Ours."""

    def __init__(self, folder: Path, who: str) -> None:
        self._folder, self._who = folder, who
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # names of topics are in it
        self.number, self._lock = self._take()
        self._files: dict[str, MmapedDict] = {}
        self._cells: list[Cell] = []
        self._making = Lock()
        os.register_at_fork(after_in_child=self._take_another)

    def cell(self, kind: str, *names: Any, **options: Any) -> "Cell | MutexValue":
        """What prometheus_client wants to be made for each number."""
        if kind == "gauge":  # some package's: one of a single process says nothing about all, and would outlive it
            return MutexValue(kind, *names)  # type: ignore[no-untyped-call]
        made = Cell(kind, mmap_key(*names))
        with self._making:  # one at a time: a file has one end
            made.lie_in(self._file(kind))
            self._cells.append(made)
        return made

    def _file(self, kind: str) -> MmapedDict:
        if kind not in self._files:
            self._files[kind] = MmapedDict(str(self._folder / f"{kind}_{self.number}.db"))  # type: ignore[no-untyped-call]
        return self._files[kind]

    def _take(self) -> tuple[int, int]:
        for number in itertools.count():
            lock = os.open(self._folder / f"{number}.seat", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            os.truncate(lock, 0)
            os.write(lock, self._who.encode())
            _prepare(self._folder, number)
            return number, lock
        raise AssertionError

    def _take_another(self) -> None:
        os.close(self._lock)  # the parent keeps its own
        self.number, self._lock = self._take()
        self._files = {}
        for cell in self._cells:
            cell.lie_in(self._file(cell.kind))


class Cell:
    """One number. As prometheus_client's own, at less than half the price: a cell knows where in the file it lies."""

    __slots__ = ("_at", "_file", "_value", "key", "kind")
    _lock = Lock()
    _value: float

    def __init__(self, kind: str, key: str) -> None:
        self.kind, self.key = kind, key

    def lie_in(self, file: MmapedDict) -> None:
        with self._lock:
            self._value, _ = file.read_value(self.key)  # type: ignore[no-untyped-call]
            self._at = file._positions[self.key] // 8  # noqa: SLF001
            self._file = memoryview(file._m).cast("d")  # noqa: SLF001  of this mapping: a later, larger one shows the same

    def inc(self, amount: float) -> None:
        with self._lock:
            self._value += amount
            self._file[self._at] = self._value

    def get(self) -> float:
        return self._value

    def get_exemplar(self) -> None:
        return None


def sitting(folder: Path) -> Counter[str]:
    """How many live processes of each service there are."""
    found: Counter[str] = Counter()
    for path in folder.glob("*.seat"):
        with _free(path) as is_free:
            if not is_free and (who := path.read_text()):
                found[who] += 1
    return found


def labels_in(folder: Path | None) -> Iterator[dict[str, str]]:
    """Of every counter that a process has, or had."""
    for path in folder.glob("counter_*.db") if folder else ():
        with contextlib.suppress(Exception):  # half written: it says nothing, and `mend` takes it away
            for key, *_ in MmapedDict.read_all_values_from_file(str(path)):  # type: ignore[no-untyped-call]
                yield json.loads(key)[2]


def clear(folder: Path) -> None:
    """Forget all numbers, but for those of live processes."""
    for path in folder.glob("*.seat"):
        with _free(path) as is_free:
            if is_free:
                for numbers in folder.glob(f"*_{path.stem}.db"):
                    numbers.unlink(missing_ok=True)


def mend(folder: Path) -> None:
    """Forget what a crash of the machine left half written: nobody could read the rest for it."""
    for path in folder.glob("*.db"):
        if not _is_whole(path):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _free(path: Path) -> Iterator[bool]:
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _prepare(folder: Path, number: int) -> None:
    for kind in KINDS:
        path = folder / f"{kind}_{number}.db"
        if path.exists() and not _is_whole(path):
            path.unlink()  # the machine went down while it was written
        with open(path, "ab") as file:
            if hasattr(os, "posix_fallocate"):  # a write into a hole of a mapped file kills where the disk is full
                os.posix_fallocate(file.fileno(), 0, ROOM)


def _is_whole(path: Path) -> bool:
    try:
        used = int.from_bytes(path.read_bytes()[:4], sys.byteorder, signed=True)
        found = MmapedDict.read_all_values_from_file(str(path))  # type: ignore[no-untyped-call]
        return 0 <= used <= path.stat().st_size and all(json.loads(key) for key, *_ in found)
    except Exception:  # noqa: BLE001  whatever bytes may do to a parser
        return False

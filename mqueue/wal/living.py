"""The log of a living writer for one shard: appended to, synced, and cut off at its old end.

Whoever has it calls it from one thread at a time, and that is not the event loop's: a disk may take its time.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mqueue.wal import segments
from mqueue.wal.folder import sync_folder
from mqueue.wal.frames import Frame
from mqueue.wal.segments import HEADER_BYTES, Header

SEGMENT_BYTES = 16 << 20
IDLE_BYTES = 1 << 20  # the last segment, once nobody needs it, is kept up to this size


class Broken(Exception):
    """The disk failed, and what the log ends with is not known: it is left to who inherits it."""


@dataclass(slots=True)
class _Part:
    """One segment, as its writer knows it."""

    path: Path
    size: int = HEADER_BYTES
    last: int = 0  # the number of its last record


class LivingLog:
    def __init__(self, folder: Path, header: Header, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder, self._header, self._segment_bytes = folder, header, segment_bytes
        self._parts: list[_Part] = []
        self._file: int | None = None  # the last part's, while it may grow
        self._made = 0

    @property
    def size(self) -> int:
        return sum(part.size for part in list(self._parts))

    def append(self, data: bytes, last: int) -> None:
        """Frames up to this number: on the disk when it returns. An OSError says that nothing was added."""
        if self._file is not None and self._parts[-1].last and self._parts[-1].size + len(data) > self._segment_bytes:
            part = self._parts[-1]
            self._add(part, segments.seal(self._header.writer, part.last))
            self._close()
        if self._file is None:
            self._begin()
        self._add(self._parts[-1], data)
        self._parts[-1].last = last

    def forget(self, mark: int) -> None:
        """Remove the segments whose records are all committed."""
        while self._parts and self._parts[0].last <= mark:
            if len(self._parts) == 1 and self._file is not None:
                if self._parts[0].size <= IDLE_BYTES:
                    return
                self._close()
            self._parts.pop(0).path.unlink()

    def read(self, first: int) -> Iterator[Frame]:
        """The records from that number on. Also while others append and forget: what is gone was committed."""
        for part in list(self._parts):
            if part.last >= first:
                with contextlib.suppress(FileNotFoundError):
                    found = segments.read(part.path, part.size).frames
                    yield from (frame for frame in found if frame.number >= first)

    def close(self) -> None:
        self._close()

    def _begin(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        header = Header(self._header.writer, self._header.deployment, self._header.shard, self._made + 1)
        path = self._folder / segments.file_name(header.number)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            _write(file, header.pack())
            os.fsync(file)
            sync_folder(self._folder)
            sync_folder(self._folder.parent)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        self._made, self._file = header.number, file
        self._parts.append(_Part(path))

    def _add(self, part: _Part, data: bytes) -> None:
        assert self._file is not None
        try:
            _write(self._file, data)
            os.fdatasync(self._file)
        except OSError:
            self._take_back(part.size)
            raise
        part.size += len(data)

    def _take_back(self, size: int) -> None:
        """After a failed write: as if it had not been tried."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, size)
            os.fsync(self._file)
        except OSError as error:
            raise Broken(str(error)) from error

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]

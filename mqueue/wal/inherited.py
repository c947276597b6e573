"""The log of a writer whose process has died: looked through once, then read until the shard has it."""

import logging
from collections.abc import Iterator
from pathlib import Path

from mqueue.wal import segments
from mqueue.wal.folder import WalDir
from mqueue.wal.frames import Frame
from mqueue.wal.segments import Header, Segment, SegmentError

log = logging.getLogger(__name__)


class InheritedLog:
    """What is damaged is set aside, and what is intact in it is used all the same."""

    def __init__(self, wal: WalDir, folder: Path, header: Header) -> None:
        self._wal, self._folder, self._header = wal, folder, header
        self._paths: list[Path] = []
        self.records = self.last = 0
        self._look_through()

    def read(self, first: int) -> Iterator[Frame]:
        """The records from that number on."""
        for path in self._paths:
            yield from (frame for frame in segments.read(path).frames if frame.number >= first)

    def _look_through(self) -> None:
        paths = sorted(self._folder.glob(f"*{segments.SUFFIX}"))
        for path in paths:
            if segment := self._read(path, is_last=path == paths[-1]):
                self._take(segment, is_last=path == paths[-1])

    def _read(self, path: Path, *, is_last: bool) -> Segment | None:
        """None where nothing in it is of use: it is no segment, or not one of this log."""
        try:
            segment = segments.read(path)
        except SegmentError as error:
            if is_last and path.stat().st_size < segments.HEADER_BYTES:
                path.unlink()  # its writer died while it was made: nothing was ever added
            else:
                self._wal.set_aside_for_good(path, str(error))
            return None
        if wrong := self._foreign(path, segment.header):
            self._wal.set_aside_for_good(path, wrong)
            return None
        return segment

    def _foreign(self, path: Path, header: Header) -> str:
        if header.deployment != self._header.deployment:
            return f"it belongs to another deployment, {header.deployment}"
        if header.writer != self._header.writer:
            return f"it belongs to another writer, {header.writer.hex}"
        if header.shard != self._header.shard:
            return f"it belongs to shard {header.shard}"
        if path.name != segments.file_name(header.number):
            return f"it is segment {header.number}, under another name"
        return ""

    def _take(self, segment: Segment, *, is_last: bool) -> None:
        if trouble := segment.trouble(is_last=is_last):
            self._wal.set_aside(segment.path, trouble)
        elif segment.scan.tail:
            log.info("%s ends with %d bytes that were never answered", segment.path, segment.scan.tail)
        for frame in segment.frames:
            if self.last and frame.number != self.last + 1:
                log.error("the log %s misses records %d to %d", self._folder, self.last + 1, frame.number - 1)
            self.last = max(self.last, frame.number)
        self._paths.append(segment.path)
        self.records += len(segment.frames)

"""A segment: one file of a log, with a header that says whose it is, its frames, and a seal once it is complete."""

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from mqueue.wal import frames
from mqueue.wal.frames import Frame, Scan

MAGIC = b"mqueueWL"
VERSION = 1
SUFFIX = ".wal"
_HEADER = struct.Struct(">8sH16s16sHQ")  # magic, version, writer, deployment, shard, which segment of its log
_SUM = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _SUM.size


class SegmentError(Exception):
    """This is no segment that can be read."""


@dataclass(frozen=True, slots=True)
class Header:
    writer: UUID
    deployment: UUID
    shard: int
    number: int

    def pack(self) -> bytes:
        ids = (self.writer.bytes, self.deployment.bytes)
        packed = _HEADER.pack(MAGIC, VERSION, *ids, self.shard, self.number)
        return packed + _SUM.pack(zlib.crc32(packed))

    @classmethod
    def unpack(cls, data: bytes) -> "Header":
        if len(data) < HEADER_BYTES:
            raise SegmentError(f"it ends after {len(data)} bytes, within its header")
        magic, version, writer, deployment, shard, number = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise SegmentError("it does not begin as a segment does")
        if _SUM.unpack_from(data, _HEADER.size)[0] != zlib.crc32(data[: _HEADER.size]):
            raise SegmentError("its header is damaged")
        if version != VERSION:
            raise SegmentError(f"it has version {version} of the format, and this code reads {VERSION}")
        return cls(UUID(bytes=writer), UUID(bytes=deployment), shard, number)


@dataclass(frozen=True, slots=True)
class Segment:
    path: Path
    header: Header
    scan: Scan

    @property
    def frames(self) -> list[Frame]:
        return self.scan.frames

    def trouble(self, *, is_last: bool) -> str:
        """What is wrong with it. Half a record at the end of the last one was never answered: nothing is wrong with
        that. Other bytes that cannot be read there may once have been records that were."""
        scan = self.scan
        if scan.damaged:
            start, end = scan.damaged[0]
            more = f", and {len(scan.damaged) - 1} more places" if scan.damaged[1:] else ""
            return f"bytes {start} to {end} cannot be read{more}"
        if scan.sealed is None:
            if not is_last:
                return "it has no end: something was cut off"
            return f"its last {scan.tail} bytes cannot be read" if scan.tail and not scan.is_torn else ""
        if scan.tail:
            return f"{scan.tail} bytes stand behind its end"
        if scan.frames and scan.frames[-1].number != scan.sealed:
            return f"it ends with record {scan.frames[-1].number}, and should with {scan.sealed}"
        return ""


def file_name(number: int) -> str:
    return f"{number:08d}{SUFFIX}"


def read(path: Path, size: int | None = None) -> Segment:
    """`size`: no further than that, of a file that is still written to."""
    data = path.read_bytes()[:size]
    header = Header.unpack(data)
    return Segment(path, header, frames.scan(frames.seed_of(header.writer), data, HEADER_BYTES))


def seal(writer: UUID, last: int) -> bytes:
    return frames.write(frames.seed_of(writer), last, b"", frames.SEAL)

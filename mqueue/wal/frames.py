"""How a record lies in a segment, and in Redis: a head, then the body as it was given.

The sums begin with the writer's random identity. So nobody who does not know it can write bytes that pass for a frame,
in a payload for example, and what another writer has left on the disk is not believed.
"""

import struct
import zlib
from dataclasses import dataclass, field
from uuid import UUID

MARK = b"\xf7mq"  # where a frame begins
RECORD, SEAL = ord("r"), ord("s")
MOST = 4 << 20  # bytes of a body: far more than any message can have
_HEAD = struct.Struct(">3sBIQI")  # mark, kind, length of the body, number, sum of the body
_SUM = struct.Struct(">I")  # of the head
HEAD_BYTES = _HEAD.size + _SUM.size


@dataclass(frozen=True, slots=True)
class Frame:
    """The n-th record of its log. `start` and `end` say where it lies."""

    number: int
    body: bytes = field(repr=False)
    start: int
    end: int
    kind: int = RECORD


@dataclass(slots=True)
class Scan:
    """What a stretch of bytes holds."""

    frames: list[Frame] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)  # from, to: unreadable, with something readable behind
    tail: int = 0  # unreadable bytes at the end
    is_torn: bool = False  # they are what an interrupted write leaves
    sealed: int | None = None  # the last number that there has to be

    @property
    def is_whole(self) -> bool:
        return not self.damaged and not self.tail


def seed_of(writer: UUID) -> int:
    return zlib.crc32(writer.bytes)


def write(seed: int, number: int, body: bytes, kind: int = RECORD) -> bytes:
    head = _HEAD.pack(MARK, kind, len(body), number, zlib.crc32(body, seed))
    return head + _SUM.pack(zlib.crc32(head, seed)) + body


def scan(seed: int, data: bytes, start: int = 0) -> Scan:
    """Every frame that is intact, whatever lies between them; what stands behind a seal is none."""
    found, at = Scan(), start
    while at < len(data) and found.sealed is None:
        frame = _read(seed, data, at)
        if frame is None:
            frame = _next(seed, data, at + 1)
            if frame is None:
                break
            found.damaged.append((at, frame.start))
        if frame.kind == SEAL:
            found.sealed = frame.number
        else:
            found.frames.append(frame)
        at = frame.end
    found.tail = len(data) - at
    found.is_torn = bool(found.tail) and _is_torn(seed, data, at)
    return found


def _read(seed: int, data: bytes, at: int) -> Frame | None:
    body_at = at + HEAD_BYTES
    if body_at > len(data):
        return None
    mark, kind, length, number, body_sum = _HEAD.unpack_from(data, at)
    end = body_at + length
    if mark != MARK or length > MOST or end > len(data):
        return None
    # The head first: a body is summed up only where a frame was meant to be, so no bytes can make this slow.
    if not _has_head(seed, data, at):
        return None
    body = data[body_at:end]
    return Frame(number, body, at, end, kind) if zlib.crc32(body, seed) == body_sum else None


def _has_head(seed: int, data: bytes, at: int) -> bool:
    return bool(_SUM.unpack_from(data, at + _HEAD.size)[0] == zlib.crc32(data[at : at + _HEAD.size], seed))


def _is_torn(seed: int, data: bytes, at: int) -> bool:
    """The beginning of a frame, and not all of it; or room that was never written to."""
    rest = len(data) - at
    if not data[at:].strip(b"\0"):
        return True
    if rest < HEAD_BYTES:
        return data[at : at + len(MARK)] == MARK[:rest]
    mark, _, length, *_ = _HEAD.unpack_from(data, at)
    return mark == MARK and rest < HEAD_BYTES + length and _has_head(seed, data, at)


def _next(seed: int, data: bytes, at: int) -> Frame | None:
    """The first intact frame from there on."""
    while (at := data.find(MARK, at)) >= 0:
        if frame := _read(seed, data, at):
            return frame
        at += 1
    return None

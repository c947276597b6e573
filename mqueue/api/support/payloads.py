"""Strangers' bytes as people can read them. Nothing here is marked safe: templates escape it all.

Characters that nobody sees, or that turn the direction of what stands beside them, are written out as escapes.
"""

import unicodedata
from typing import NamedTuple

import msgspec

from mqueue.core.messages import DeadLetter

MOST_TEXT, MOST_HEX, LINE = 64 * 1024, 4 * 1024, 16
KEPT = "\n\t"
HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


class Shown(NamedTuple):
    kind: str
    text: str
    size: int
    is_cut: bool


def bytes_of(letter: DeadLetter) -> bytes:
    return bytes(letter.body) if isinstance(letter.body, msgspec.Raw) else letter.payload or b""


def shown(payload: bytes) -> Shown:
    """Indented JSON, else text, else a dump of the bytes; the beginning alone of what is long."""
    size = len(payload)
    if size <= MOST_TEXT:
        try:
            return Shown("JSON", visible(msgspec.json.format(payload, indent=2).decode()), size, is_cut=False)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    text = _text(payload[:MOST_TEXT], is_whole=size <= MOST_TEXT)
    if text is not None:
        return Shown("text", visible(text), size, size > MOST_TEXT)
    return Shown("hex", _dump(payload[:MOST_HEX]), size, size > MOST_HEX)


def visible(text: str) -> str:
    return "".join(
        one if one in KEPT or unicodedata.category(one) not in HIDDEN else one.encode("unicode_escape").decode()
        for one in text
    )


def _text(payload: bytes, *, is_whole: bool) -> str | None:
    """None for what is no UTF-8, or has a NUL. The cut may go through a character."""
    if b"\0" in payload:
        return None
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        if is_whole or error.start < len(payload) - 3:
            return None
        return payload[: error.start].decode()


def _dump(payload: bytes) -> str:
    lines = []
    for start in range(0, len(payload), LINE):
        part = payload[start : start + LINE]
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * LINE}} {seen}")
    return "\n".join(lines)

"""The heads of requests, remembered by their bytes: a client sends the same again and again, but for the length of
what follows it. What such a head says has been read by the parser before, and the rules that look at a head alone have
been kept by it. The figures are in docs/decisions/0011-one-thread-http.md.
"""

from collections.abc import Mapping
from typing import NamedTuple

from mqueue.api.bodies import COUNTED_FROM
from mqueue.api.handlers import Handler

END, LENGTH, LINE = b"\r\n\r\n", b"ength: ", b"\r\n"  # of Content-Length, however it is written
USUAL = 2048  # bytes of a head that is worth remembering
MOST, MOST_ONCE = 4096, 8192  # heads, and those that came once
# Who sends one of these has more to say than the bytes tell.
TELLING = frozenset((b"transfer-encoding", b"expect", b"upgrade"))
ASKED = frozenset((b"authorization", b"authorisation", b"x-api-key", b"x-forwarded-for"))  # each time


class Head(NamedTuple):
    """What a request's first lines say, as far as somebody asks for it later."""

    method: str
    path: str
    query: bytes
    headers: Mapping[bytes, bytes]
    handler: Handler


class Sight(NamedTuple):
    """The beginning of a request: its head, but for the length in it, and what came of its body."""

    key: bytes
    body: bytes
    size: int  # of the body, when all of it is here


def sight(data: bytes) -> Sight | None:
    """None for what is no small request, or more than one."""
    end = data.find(END, 0, USUAL) + len(END)
    if end < len(END):
        return None
    at = data.find(LENGTH, 0, end)
    if at < 0:
        return Sight(data, b"", 0) if end == len(data) else None
    start = at + len(LENGTH)
    stop = data.index(LINE, start)
    digits = data[start:stop]
    size = int(digits) if digits.isdigit() else -1
    if size > COUNTED_FROM or size < len(data) - end:
        return None
    return Sight(data[:start] + data[stop:end], data[end:], size)


class Heads:
    """Of all connections of a process."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}
        self._once: set[int] = set()

    def get(self, seen: Sight) -> Head | None:
        """What is known of it."""
        return self._known.get(seen.key)

    def is_again(self, seen: Sight) -> bool:
        """Whether it has come before. Some clients never send the same twice: theirs are not kept."""
        mark = hash(seen.key)
        if mark in self._once:
            return True
        if len(self._once) >= MOST_ONCE:
            self._once.clear()
        self._once.add(mark)
        return False

    def learn(self, seen: Sight, head: Head) -> None:
        """It came for the second time, and this is what the parser and the rules made of it."""
        if len(self._known) >= MOST:
            del self._known[next(iter(self._known))]  # the oldest
        self._known[seen.key] = head


def is_plain(seen: Sight, headers: Mapping[bytes, bytes]) -> bool:
    """Whether the length is where `sight` took it from, and nothing else in the head changes what follows it."""
    before, found, _ = seen.key.partition(LENGTH)
    named = before.rpartition(LINE)[2].lower() + found
    return (named == b"content-length: " if found else b"content-length" not in headers) and TELLING.isdisjoint(headers)

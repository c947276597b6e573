"""What a stored message says, whoever asks."""

from typing import Any

import msgspec

from mqueue.core.messages import MAX_REQUEST

READ_AT_ONCE = 100  # messages that are read at once for a page: it may be full before the next
EMPTY = msgspec.Raw(b"{}")


def headers(stored: str | None) -> msgspec.Raw:
    return msgspec.Raw(stored.encode()) if stored else EMPTY


def content(is_json: bool, payload: bytes) -> dict[str, Any]:
    """As it was sent: a body comes back as a body."""
    return {"body": msgspec.Raw(payload)} if is_json else {"payload": payload}


class Page:
    """Bounds an answer: at most so many, and 16 MiB of payload unless the first alone is more."""

    def __init__(self, limit: int) -> None:
        self._left, self._bytes, self._full = limit, 0, False

    def takes(self, payload: bytes) -> bool:
        self._bytes += len(payload)
        self._full = self._full or self._left <= 0 or (self._bytes > MAX_REQUEST and self._bytes > len(payload))
        self._left -= 1
        return not self._full

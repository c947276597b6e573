"""The client: where it is, whether it is still there, and whether its credential holds still.

What was leased for one who has left, or whose key was revoked while it waited, is given back at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from mqueue.core.principals import Principal

T = TypeVar("T")
Verify = Callable[[], Principal]


class Present:
    """A client of whom nothing is known, as under a server that does not say."""

    __slots__ = ("_verify",)
    has_left = False
    peer = ""  # the address at the other end of the connection, where that is known

    def __init__(self, verify: Verify | None = None) -> None:
        self._verify = verify

    def verify_again(self) -> Principal | None:
        """As its credential holds now; None where nobody can tell."""
        return self._verify() if self._verify else None

    def unless_left(self, work: Coroutine[Any, Any, T], *, waits: bool) -> Coroutine[Any, Any, T | None]:
        """What the work answers. If it waits and the client leaves before: None, and the work is cancelled."""
        return work


class Watched(Present):
    """Over ASGI: after the body, the next thing to receive is that the client has left."""

    def __init__(self, receive: Callable[[], Awaitable[dict[str, Any]]], verify: Verify, peer: str) -> None:
        super().__init__(verify)
        self._receive, self.peer = receive, peer
        self.has_left = False

    async def unless_left(self, work: Coroutine[Any, Any, T], *, waits: bool) -> T | None:
        leaving = asyncio.ensure_future(self._receive())
        try:
            return await (first(work, leaving) if waits else work)
        finally:
            self.has_left = leaving.done()
            leaving.cancel()


async def first(work: Coroutine[Any, Any, T], leaving: "asyncio.Future[Any]") -> T | None:
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
        return await working
    except asyncio.CancelledError:
        if leaving.done():
            return None
        working.cancel()
        raise

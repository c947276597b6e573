"""Whether the client is still there: what was leased for one who has left is given back at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Present:
    """A client of whom nothing is known, as under a server that does not say."""

    __slots__ = ()
    has_left = False

    async def unless_left(self, work: Coroutine[Any, Any, T], *, waits: bool) -> T | None:
        """What the work answers. If it waits and the client leaves before: None, and the work is cancelled."""
        return await work


class Watched(Present):
    """Over ASGI: after the body, the next thing to receive is that the client has left."""

    def __init__(self, receive: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._receive = receive
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

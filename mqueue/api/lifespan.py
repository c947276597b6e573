"""The ASGI lifespan protocol: open before the first request, close after the last."""

from collections.abc import Awaitable, Callable
from typing import Any


async def lifespan(
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
    start: Callable[[], Awaitable[None]],
    stop: Callable[[], Awaitable[None]],
) -> None:
    steps = {"lifespan.startup": start, "lifespan.shutdown": stop}
    while True:
        kind = (await receive())["type"]
        await steps[kind]()
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return

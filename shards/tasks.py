"""End a task of our own for certain."""

import asyncio
from typing import Any

AGAIN_S = 0.1


async def end(task: "asyncio.Task[Any] | None") -> None:
    """Cancels until it has ended: a cancellation that reaches a connection in mid-query is swallowed there at times."""
    while task and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_S)

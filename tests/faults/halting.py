"""python -m tests.faults.halting POINT FILE api | daemons: one of our processes, that stops in mid-step.

Once FILE is there and the process comes to POINT, it renames FILE to FILE.hit and stands still, with all its threads
that need the interpreter: for a test to kill it there, or to let it go on by deleting FILE.hit.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqueue.settings")

from django.core.management import execute_from_command_line

from mqueue import serve, worker
from mqueue.core.conf import conf
from mqueue.engine.flushing import Flushing
from mqueue.hot.buffer import Buffer
from mqueue.wal import living
from mqueue.wal.living import LivingLog

FILE = Path(sys.argv[2])


def halt(*_: Any) -> None:
    if FILE.exists():
        hit = FILE.rename(f"{FILE}.hit")
        while hit.exists():
            time.sleep(0.01)  # not awaited: the event loop stands still, too


def around(
    owner: Any, name: str, *, before: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None
) -> None:
    original = getattr(owner, name)
    if asyncio.iscoroutinefunction(original):

        async def halting(*args: Any, **more: Any) -> Any:
            if before:
                before()
            done = await original(*args, **more)
            if after:
                after()
            return done
    else:

        def halting(*args: Any, **more: Any) -> Any:  # type: ignore[misc]
            if before:
                before()
            done = original(*args, **more)
            if after:
                after()
            return done

    setattr(owner, name, halting)


def in_transaction() -> None:
    """After everything is written, and before it is committed."""
    marking = Flushing._marking

    @contextlib.asynccontextmanager
    async def halting(self: Flushing, items: Any) -> AsyncIterator[Any]:
        async with marking(self, items) as connection:
            yield connection
            halt()

    Flushing._marking = halting  # type: ignore[method-assign]


POINTS: dict[str, Callable[[], None]] = {
    "before the write": lambda: around(LivingLog, "append", before=halt),
    "before the sync": lambda: around(living.os, "fdatasync", before=halt),
    "after the sync": lambda: around(LivingLog, "append", after=halt),
    "after the push": lambda: around(Buffer, "push", after=halt),
    "before the commit": lambda: around(Flushing, "_commit", before=halt),
    "in the transaction": in_transaction,
    "after the commit": lambda: around(Flushing, "_commit", after=halt),
    "after the trim": lambda: around(Buffer, "flushed", after=halt),
}

if __name__ == "__main__":
    POINTS[sys.argv[1]]()
    if sys.argv[3] == "api":
        line = serve._listen(conf().api.host, conf().api.port)
        _, word = os.pipe()  # nobody listens when it says that it serves
        sys.argv = ["worker", "api", str(line.detach()), str(word)]
        worker.main()
    else:
        execute_from_command_line(["manage.py", "daemon", "all"])

"""From Django's threads to the engine, which lives on an event loop: one of each in a process, in a thread of its own.

Django's views run in threads under every server, and several at once. They share this plane, which starts with the
first request; beside the fast lane they use its plane, and its loop. A process that was forked has the parent's thread
no more, and starts one for itself.
"""

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from mqueue.api.plane import Plane
from mqueue.core.conf import conf
from mqueue.core.errors import ShardUnavailable

T = TypeVar("T")
CLOSE_S = 5.0


class Bridge:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._plane: Plane | None = None
        self._is_lent = False
        self._tasks: set[asyncio.Future[Any]] = set()

    def call(self, work: Callable[[Plane], Awaitable[T]]) -> T:
        """Do it on the loop, and wait for it here."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def begin() -> None:
            task = asyncio.ensure_future(work(plane))
            self._tasks.add(task)
            task.add_done_callback(end)

        def end(task: "asyncio.Future[T]") -> None:
            self._tasks.discard(task)
            if task.cancelled():
                done.set_exception(ShardUnavailable("The service is stopping; try again", retry_after_s=1.0))
            elif error := task.exception():
                done.set_exception(error)
            else:
                done.set_result(task.result())

        with self._lock:  # so that it begins before a close that comes meanwhile, and is ended by it
            loop, plane = self._opened()
            loop.call_soon_threadsafe(begin)
        return done.result()

    def open(self) -> None:
        with self._lock:
            self._opened()

    def close(self) -> None:
        """Those who still wait are told so."""
        if self._is_lent:
            return  # whoever lent it takes it back
        with self._lock:
            loop, plane, self._loop, self._plane = self._loop, self._plane, None, None
        if loop and plane:
            asyncio.run_coroutine_threadsafe(self._end(plane), loop).result(CLOSE_S)
            loop.call_soon_threadsafe(loop.stop)

    def lend(self, plane: Plane) -> None:
        """One that is open on the running loop: no second one is opened in this process."""
        with self._lock:
            self._loop, self._plane, self._is_lent = asyncio.get_running_loop(), plane, True

    async def take_back(self) -> None:
        """On that loop, before the plane is closed."""
        with self._lock:
            self._loop, self._plane, self._is_lent = None, None, False
        await asyncio.sleep(0)  # what was called a moment ago begins first
        await _cancel(self._tasks)

    async def _end(self, plane: Plane) -> None:
        await _cancel(self._tasks)
        await plane.close()
        await _cancel(asyncio.all_tasks() - {asyncio.current_task()})

    def _opened(self) -> tuple[asyncio.AbstractEventLoop, Plane]:
        if self._loop is None or self._plane is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(loop,), name="data plane", daemon=True).start()
            self._plane, self._loop = asyncio.run_coroutine_threadsafe(_open_plane(), loop).result(), loop
        return self._loop, self._plane


async def _open_plane() -> Plane:
    plane = Plane(conf())
    await plane.open()
    return plane


async def _cancel(tasks: Iterable["asyncio.Future[Any] | None"]) -> None:
    left = [task for task in tasks if task]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


_of_parents: list[Bridge] = []  # never freed: what they hold is still in use, in the process that made it
_bridge = Bridge()


def bridge() -> Bridge:
    return _bridge


def _after_fork() -> None:
    global _bridge  # noqa: PLW0603  one a process is what it is for
    _of_parents.append(_bridge)
    _bridge = Bridge()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _at_exit() -> None:
    _bridge.close()

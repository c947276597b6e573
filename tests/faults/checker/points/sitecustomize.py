"""Lets a process of ours die between two steps. Found first by processes that have this folder in their PYTHONPATH, and
by nobody else; the product knows nothing of it.

At each point a process looks for the file of its name in CHECKER_POINTS. Whoever renames it first kills itself there.
"""

import asyncio
import contextlib
import functools
import importlib.abc
import importlib.machinery
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(os.environ.get("CHECKER_POINTS", "/nonexistent"))
# Where: a module, a function in it, and whether before it or after it.
POINTS = {
    "commit-push": ("mqueue.engine.inserts", "offer_rows", "before"),
    "key-message": ("mqueue.engine.keys", "Keys.take", "after"),
    "message-key": ("mqueue.engine.keys", "Keys.confirm", "before"),
    "pop-lease": ("mqueue.engine.hot", "Shard.pop", "after"),
    "lease-reply": ("mqueue.engine.claims", "Claims.refs", "after"),
    "settle-reply": ("mqueue.engine.settle", "Settling._settle_one", "after"),
    "retry-push": ("mqueue.engine.hot", "Shard.offer_rows", "before"),
    "fill": ("mqueue.hot.building", "Building.end_fill", "before"),
    "ahead": ("mqueue.hot.building", "Building.end_ahead", "before"),
    "sync-push": ("mqueue.wal.living", "LivingLog.append", "after"),
    "push-reply": ("mqueue.hot.buffer", "Buffer.push", "after"),
    "flush-commit": ("mqueue.engine.flushing", "Flushing._commit", "before"),
    "commit-trim": ("mqueue.engine.flushing", "Flushing._commit", "after"),
}


def look(point: str) -> None:
    file = FOLDER / point
    if file.exists():
        with contextlib.suppress(FileNotFoundError):  # another was quicker
            file.rename(f"{file}.hit")
            os.kill(os.getpid(), signal.SIGKILL)


def put(point: str, module: ModuleType, name: str, when: str) -> None:
    owner: Any = module
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original = getattr(owner, last)

    if asyncio.iscoroutinefunction(original):

        @functools.wraps(original)
        async def stepping(*args: Any, **more: Any) -> Any:
            if when == "before":
                look(point)
            done = await original(*args, **more)
            if when == "after":
                look(point)
            return done
    else:

        @functools.wraps(original)
        def stepping(*args: Any, **more: Any) -> Any:
            if when == "before":
                look(point)
            done = original(*args, **more)
            if when == "after":
                look(point)
            return done

    setattr(owner, last, stepping)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that have points, where they always are, and puts the points in when they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        mine = [(point, name, when) for point, (module, name, when) in POINTS.items() if module == fullname]
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target) if mine else None
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                for point, name, when in mine:
                    put(point, module, name, when)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if FOLDER.is_dir():
    sys.meta_path.insert(0, Finder())

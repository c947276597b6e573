"""The lake as a file system: a folder or an object store, named by a URI. pyarrow is only loaded where there is one."""

import datetime
from functools import cache
from typing import Any


class LakeMissing(Exception):
    """There is no lake to speak of; the message says why."""


@cache
def open_lake(url: str) -> tuple[Any, str]:
    """pyarrow's file system, and the path in it that everything lies under."""
    try:
        from pyarrow import fs
    except ImportError as error:
        raise LakeMissing("LAKE_URL is set, and pyarrow is not installed: launch/install.py pipeline") from error
    system, path = fs.FileSystem.from_uri(url)
    return system, path.rstrip("/")


def folder_of(deployment: object, parent: str, day: datetime.date, shard: int) -> str:
    """Where the files of one partition lie, under the lake's root. Deployments that share a lake keep apart."""
    return f"{deployment}/{parent}/day={day.isoformat()}/shard={shard}"

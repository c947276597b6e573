"""Messages whose day has left the shards: read from the lake, a row group a file, without Spark.

Only asked where the shard has no answer, in threads of its own, and by a few at a time: whoever asks for more is told
to try again.
"""

import asyncio
import functools
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mqueue.core.conf import Conf
from mqueue.core.errors import ShardUnavailable
from shards.calls import fetch
from shards.lake import LakeMissing, open_lake
from shards.pools import Database
from shards.sql import statement

log = logging.getLogger(__name__)
THREADS, WAITING = 2, 32
FOOTERS = 256  # kept, of files: they never change
Rows = dict[str, list[dict[str, Any]]]


class History:
    def __init__(self, conf: Conf, control: Database) -> None:
        self._url, self._control = conf.lake.url, control
        self._threads: ThreadPoolExecutor | None = None
        self._asking = 0

    @property
    def is_on(self) -> bool:
        return bool(self._url)

    async def of_message(self, topic: int, message_id: int) -> Rows:
        """By log, message and event: the rows that the lake has of it."""
        if self._asking >= WAITING:
            raise ShardUnavailable("Too many look into the archive at once; try again", retry_after_s=1.0)
        self._asking += 1
        try:
            files = await fetch(self._control, statement("lake_files"), {"topic": topic, "id": message_id})
            if not files:
                return {}
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="lake")
            work = functools.partial(_read_all, self._url, files, topic, message_id)
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except (LakeMissing, OSError, ValueError) as error:  # a damaged file is a ValueError of pyarrow's
            log.error("the lake cannot be read: %s", error)  # noqa: TRY400  the message says it all
            raise ShardUnavailable("The archive cannot answer now; try again", retry_after_s=5.0) from error
        finally:
            self._asking -= 1

    def close(self) -> None:
        if self._threads:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _read_all(url: str, files: list[Any], topic: int, message_id: int) -> Rows:
    found: Rows = {}
    for parent, path in files:
        found.setdefault(parent, []).extend(_read(url, path, topic, message_id))
    return found


def _read(url: str, path: str, topic: int, message_id: int) -> list[dict[str, Any]]:
    """Rows of a file, from the row groups whose statistics do not exclude them."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    system, root = open_lake(url)
    footer = _footer(url, path)
    with system.open_input_file(f"{root}/{path}") as source:
        file = pq.ParquetFile(source, metadata=footer)
        groups = [
            number
            for number in range(footer.num_row_groups)
            if _may_hold(footer.row_group(number), {"topic_id": topic, "id": message_id})
        ]
        if not groups:
            return []
        table = file.read_row_groups(groups)
    wanted = pc.and_(pc.equal(table["topic_id"], topic), pc.equal(table["id"], message_id))
    rows: list[dict[str, Any]] = table.filter(wanted).to_pylist()
    return rows


def _may_hold(group: Any, wanted: dict[str, int]) -> bool:
    for number in range(group.num_columns):
        column = group.column(number)
        value = wanted.get(column.path_in_schema)
        bounds = column.statistics
        if value is not None and bounds is not None and bounds.has_min_max and not bounds.min <= value <= bounds.max:
            return False
    return True


@functools.lru_cache(maxsize=FOOTERS)
def _footer(url: str, path: str) -> Any:
    import pyarrow.parquet as pq

    system, root = open_lake(url)
    with system.open_input_file(f"{root}/{path}") as source:
        return pq.read_metadata(source)

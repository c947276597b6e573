"""Buffered topics, as this process serves them: its logs, one a shard, and those that it takes over from the dead."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import psycopg

from mqueue.core.conf import Conf
from mqueue.core.errors import ControlUnavailable, MqueueError
from mqueue.engine.adopting import Adopting
from mqueue.engine.hot import Hot
from mqueue.engine.records import Record
from mqueue.engine.sending import TROUBLE
from mqueue.engine.shardlog import SEGMENTS, ShardLog
from mqueue.wal.folder import WalDir, WriterFolder
from mqueue.wal.living import SEGMENT_BYTES, LivingLog
from mqueue.wal.segments import Header
from shards.cluster import Cluster
from shards.pools import Database
from shards.routing import SLOTS
from shards.tasks import end

log = logging.getLogger(__name__)
TEND_S, REST_S = 0.25, 1.0  # while something is not committed yet, and while nothing is
LAST_LOOK_S = 1.0
DRAIN_S = 60.0


class Buffering:
    def __init__(self, conf: Conf, cluster: Cluster, hot: Hot) -> None:
        self._cluster = cluster
        self._limit = conf.wal_bytes
        self._wal = WalDir(conf.wal_dir)
        self._folder: WriterFolder | None = None
        self._logs = {
            shard: ShardLog(shard, hot.buffer(number), self._limit, self._open_log)
            for number, shard in enumerate(cluster.shards)
        }
        self._adopting = Adopting(self._wal, cluster, hot)
        self._making = asyncio.Lock()
        self._tending: list[asyncio.Task[None]] = []
        self._owners: list[int] = []
        self._draining: dict[int, asyncio.Task[None]] = {}  # by slot
        cluster.slots.on_change(self._note_moves)

    @property
    def trouble(self) -> str:
        """What is wrong, in words that may be shown to anybody."""
        return next((shard_log.trouble for shard_log in self._logs.values() if shard_log.trouble), "")

    async def open(self) -> None:
        self._tending = [asyncio.create_task(self._keep_tending(one), name="tend a log") for one in self._logs.values()]
        self._tending.append(asyncio.create_task(self._keep_adopting(), name="adopt logs"))

    async def close(self) -> None:
        for task in (*self._tending, *set(self._draining.values())):
            await end(task)
        self._adopting.close()
        for shard_log in self._logs.values():
            with contextlib.suppress(
                *TROUBLE, psycopg.Error, TimeoutError
            ):  # a last look: what is done is cleared away
                await asyncio.wait_for(shard_log.tend(), LAST_LOOK_S)
        is_done = all(shard_log.is_done for shard_log in self._logs.values())
        for shard_log in self._logs.values():
            await shard_log.close()
        if self._folder:
            if is_done:
                self._folder.remove()
            else:
                self._folder.release()

    async def take(self, parts: Mapping[Database, Sequence[Record]]) -> dict[Database, MqueueError | None]:
        """Why those of a shard were not taken, or None. All of them stand in line before anything is waited for."""
        standing = {shard: self._logs[shard].take(records) for shard, records in parts.items()}
        return {shard: await answer for shard, answer in standing.items()}

    def last(self, shard: Database) -> int:
        """The number of the newest record that this process has logged for a shard."""
        return self._logs[shard].last

    def is_committed(self, shard: Database, number: int) -> bool:
        """As far as is known: the mark is read a few times a second."""
        return self._logs[shard].mark >= number

    def draining(self, slots: Iterable[int]) -> "asyncio.Task[None] | None":
        """One of these has moved, and what this process has logged for the shard that it left is not all committed:
        what is taken for its new one now could be handed out before that. The task ends when it is."""
        return next((task for slot in slots if (task := self._draining.get(slot))), None) if self._draining else None

    def _note_moves(self) -> None:
        before, self._owners = self._owners, [self._cluster.slots.reader(slot) for slot in range(SLOTS)]
        left: dict[int, list[int]] = defaultdict(list)
        for slot, (old, new) in enumerate(zip(before, self._owners, strict=False)):
            if old != new and old < len(self._cluster.shards):
                left[old].append(slot)
        for old, slots in left.items():
            task = asyncio.create_task(self._drain(old), name="drain what slots have left behind")
            self._draining |= dict.fromkeys(slots, task)
            task.add_done_callback(self._drained)

    async def _drain(self, shard: int) -> None:
        """In order, or after a minute at all: the shard may be down."""
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._logs[self._cluster.shards[shard]].drain()
        except TimeoutError:
            log.warning("what was logged for shard %d is still not committed; its slots go on elsewhere", shard)

    def _drained(self, task: "asyncio.Task[None]") -> None:
        self._draining = {slot: other for slot, other in self._draining.items() if other is not task}

    async def _open_log(self, shard: int) -> tuple[LivingLog, Header]:
        deployment = self._cluster.slots.deployment
        if deployment is None:
            raise ControlUnavailable("The deployment is not known yet; try again", retry_after_s=1.0)
        async with self._making:
            if self._folder is None:
                self._folder = await asyncio.to_thread(self._wal.make_writer)
        header = Header(self._folder.writer, deployment, shard, 0)
        size = min(SEGMENT_BYTES, self._limit // SEGMENTS)
        return LivingLog(self._folder.log_of(shard), header, size), header

    async def _keep_tending(self, shard_log: ShardLog) -> None:
        while True:
            try:
                await shard_log.tend()
            except TROUBLE:
                pass  # whoever enqueues hears of it
            except Exception:
                log.exception("the write-ahead log cannot be tended")
            await asyncio.sleep(REST_S if shard_log.is_done else TEND_S)

    async def _keep_adopting(self) -> None:
        is_left = False
        while True:
            try:
                is_left = await self._adopting.look()
            except TROUBLE:
                pass  # at the next look
            except Exception:
                log.exception("logs of the dead cannot be taken over")
            await asyncio.sleep(TEND_S if is_left else REST_S)

"""Finish what a process left that died: its logs are taken over and pushed, and removed when all of it is committed."""

import asyncio
import logging
from dataclasses import dataclass
from uuid import UUID

from mqueue.engine.hot import Hot
from mqueue.engine.sending import TROUBLE, Sender
from mqueue.wal.folder import WalDir, WriterFolder
from mqueue.wal.inherited import InheritedLog
from mqueue.wal.segments import Header
from shards.cluster import Cluster

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Estate:
    """All that one writer has left. None for the log of a shard that this process does not know: it is kept."""

    folder: WriterFolder
    senders: list[Sender | None]

    @property
    def is_done(self) -> bool:
        return all(sender is not None and sender.is_done for sender in self.senders)


class Adopting:
    def __init__(self, wal: WalDir, cluster: Cluster, hot: Hot) -> None:
        self._wal, self._cluster, self._hot = wal, cluster, hot
        self._estates: list[Estate] = []

    async def look(self) -> bool:
        """One round; whether there is anything left to finish. Called again and again, by any number of processes."""
        if deployment := self._cluster.slots.deployment:
            self._estates += await asyncio.to_thread(self._inherit, deployment)
        for estate in list(self._estates):
            await self._tend(estate)
            if estate.is_done:
                await self._settle(estate)
        return bool(self._estates)

    def close(self) -> None:
        """Others go on with what is not finished."""
        for estate in self._estates:
            estate.folder.release()
        self._estates = []

    def _inherit(self, deployment: UUID) -> list[Estate]:
        found = []
        for folder in self._wal.inherit():
            try:
                found.append(Estate(folder, [self._sender(folder, deployment, shard) for shard in folder.shards()]))
            except OSError:
                log.exception("the logs in %s cannot be read", folder.path)
                folder.release()
        return found

    def _sender(self, folder: WriterFolder, deployment: UUID, shard: int) -> Sender | None:
        if shard >= len(self._cluster.shards):
            log.error("%s has a log for shard %d, which is not among DATABASE_URLS", folder.path, shard)
            return None
        inherited = InheritedLog(self._wal, folder.log_of(shard), Header(folder.writer, deployment, shard, 0))
        database = self._cluster.shards[shard]
        log.warning("took over a log for %s from a process that has died: %d records", database.name, inherited.records)
        sender = Sender(folder.writer, inherited, database, self._hot.buffer(shard))
        sender.last = inherited.last
        return sender

    async def _tend(self, estate: Estate) -> None:
        for sender in estate.senders:
            if sender is not None and not sender.is_done:
                try:
                    await sender.tend()
                except TROUBLE as error:
                    log.info("a log that was taken over cannot be pushed now: %s", type(error).__name__)

    async def _settle(self, estate: Estate) -> None:
        for sender in estate.senders:
            if sender is not None:
                await sender.retire()
        self._estates.remove(estate)  # the thread ends what it has begun, and gives the lock back, whoever waits for it
        try:
            await asyncio.to_thread(estate.folder.remove)
        except OSError:
            self._estates.append(estate)  # the next round tries again
            raise

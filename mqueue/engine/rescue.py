"""Add messages by their ids wherever they belong, once, whoever else does the same: of a log whose topics have moved to
another shard, and of segments that were set aside."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from mqueue.core import metrics
from mqueue.core.errors import Undecided
from mqueue.engine import records
from mqueue.engine.hot import Hot
from mqueue.engine.inserts import columns_of, days_around, nudges_of, offer_rows
from mqueue.engine.records import Record
from mqueue.engine.topics import Topics
from shards.cluster import Cluster
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement

PORTION = 500


class Rescue:
    def __init__(self, cluster: Cluster, hot: Hot, topics: Topics) -> None:
        self._cluster, self._hot, self._topics = cluster, hot, topics

    async def add(self, found: Iterable[Record]) -> int:
        """How many were not there. After a failure it may be done again."""
        parts: dict[Database, list[Record]] = defaultdict(list)
        for record in found:
            parts[self._cluster.shard_of_id(record.id)].append(record)
        added = 0
        for shard, part in parts.items():
            for start in range(0, len(part), PORTION):
                added += await self._add_on(shard, part[start : start + PORTION])
        return added

    async def _add_on(self, shard: Database, part: list[Record]) -> int:
        await self._topics.note_on(shard, records.names(part))

        async def insert() -> tuple[list[Record], datetime | None]:
            async with shard.connection() as connection, connection.transaction():
                admitted = await connection.execute(statement("admit"), {"ids": [record.id for record in part]})
                ids = {row[0] for row in await admitted.fetchall()}
                new = [record for record in part if record.id in ids]
                if not new:
                    return [], None
                rows = [record.row() for record in new]
                columns = columns_of(rows, nudges=nudges_of(rows))
                row = await (await connection.execute(statement("enqueue"), columns)).fetchone()
                return new, row[0] if row else None

        try:
            new, at = await with_partitions(shard, days_around([record.row() for record in part]), insert)
        except Undecided:
            self._hot[shard].owe({record.topic_number for record in part})
            raise
        if at:
            metrics.ENQUEUED.count(new)
            rows = [record.row() for record in new]
            await offer_rows(self._hot[shard], rows, at, nudges_of(rows))
        return len(new)

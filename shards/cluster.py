"""All databases of the deployment as one process reaches them, and the one place that leads from a topic to a shard."""

from mqueue.core.conf import Conf
from mqueue.core.errors import ShardUnavailable
from shards.ids import Ids, slot_of_id
from shards.pools import Database
from shards.routing import slot_of
from shards.slotmap import SlotMap


class Cluster:
    def __init__(self, conf: Conf) -> None:
        self.control = Database("the control database", conf.control_url, conf.pool)
        self.slots = SlotMap(self.control)
        self.shards = tuple(
            Database(f"shard {n}", url, conf.pool, n, lambda: self.slots.deployment)
            for n, url in enumerate(conf.shard_urls)
        )
        self.ids = Ids(self.control)

    async def open(self) -> None:
        await self.control.open()
        await self.slots.open()  # first: it tells which deployment the shards have to belong to
        for shard in self.shards:
            await shard.open()

    async def close(self) -> None:
        await self.slots.close()
        await self.ids.close()
        for database in (*self.shards, self.control):
            await database.close()

    def shard_of_topic(self, namespace: str, topic: str) -> Database:
        return self._owner(slot_of(namespace, topic))

    def shard_of_id(self, message_id: int) -> Database:
        return self._owner(slot_of_id(message_id))

    def _owner(self, slot: int) -> Database:
        number = self.slots.owner(slot)
        if number >= len(self.shards):
            raise ShardUnavailable(f"shard {number} is not among this process's DATABASE_URLS", retry_after_s=5.0)
        return self.shards[number]

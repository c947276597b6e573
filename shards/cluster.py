"""All databases of the deployment as one process reaches them, and the one place that leads from a topic to a shard."""

from mqueue.core.conf import Conf
from mqueue.core.errors import ShardUnavailable, SlotMoved
from shards.ids import Ids, slot_of_id
from shards.pools import Database
from shards.routing import slot_of, slot_of_key
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
        return self.shard_of_slot(slot_of(namespace, topic))

    def shard_of_key(self, namespace: str, key: str) -> Database:
        return self.shard_of_slot(slot_of_key(namespace, key))

    def shard_of_id(self, message_id: int) -> Database:
        return self.shard_of_slot(slot_of_id(message_id))

    def shard_of_slot(self, slot: int) -> Database:
        """Where to write. Raises SlotMoved while that is not decided."""
        number = self.slots.owner(slot)
        if number >= len(self.shards):
            if slot in self.slots.held:
                raise SlotMoved(slots=self.slots.held)
            raise self._unknown(number)
        return self.shards[number]

    def reader_of_topic(self, namespace: str, topic: str) -> Database:
        return self.reader_of_slot(slot_of(namespace, topic))

    def reader_of_id(self, message_id: int) -> Database:
        return self.reader_of_slot(slot_of_id(message_id))

    def reader_of_slot(self, slot: int) -> Database:
        """Where to look: what moves is where it was until it has arrived."""
        number = self.slots.reader(slot)
        if number >= len(self.shards):
            raise self._unknown(number)
        return self.shards[number]

    def _unknown(self, number: int) -> ShardUnavailable:
        return ShardUnavailable(f"shard {number} is not among this process's DATABASE_URLS", retry_after_s=5.0)

"""The queue as one object: what a process opens once and calls for every request."""

from collections.abc import Sequence

from mqueue.core.conf import Conf
from mqueue.core.messages import Delivered, Dequeue, Message, Settle
from mqueue.engine.dequeue import dequeue
from mqueue.engine.enqueue import Enqueued, enqueue
from mqueue.engine.settle import Outcome, ack
from mqueue.engine.topics import Topics
from shards.cluster import Cluster


class Engine:
    def __init__(self, conf: Conf) -> None:
        self.cluster = Cluster(conf)
        self._topics = Topics(self.cluster, auto_create_namespaces=conf.auto_create_namespaces)

    async def open(self) -> None:
        await self.cluster.open()

    async def close(self) -> None:
        await self.cluster.close()

    async def enqueue(self, producer: str, messages: Sequence[Message]) -> Enqueued:
        return await enqueue(self.cluster, self._topics, producer, messages)

    async def dequeue(self, consumer: str, wanted: Dequeue) -> list[Delivered]:
        return await dequeue(self.cluster, self._topics, consumer, wanted)

    async def ack(self, consumer: str, settles: Sequence[Settle]) -> list[Outcome]:
        return await ack(self.cluster, self._topics, consumer, settles)

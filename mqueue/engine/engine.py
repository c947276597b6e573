"""The queue as one object: what a process opens once and calls for every request."""

from mqueue.core.conf import Conf
from mqueue.engine.buffering import Buffering
from mqueue.engine.dead import DeadLetters
from mqueue.engine.dead_search import DeadSearch
from mqueue.engine.dequeue import Dequeuing
from mqueue.engine.enqueue import Enqueuing
from mqueue.engine.history import History
from mqueue.engine.hot import Hot
from mqueue.engine.look import Looking
from mqueue.engine.settle import Settling
from mqueue.engine.topics import Topics
from mqueue.engine.usage import Usages
from mqueue.engine.waiting import Waiting
from shards.cluster import Cluster
from tenants.settings_cache import SettingsCache


class Engine:
    def __init__(self, conf: Conf) -> None:
        self.cluster = Cluster(conf)
        self.settings = SettingsCache(self.cluster.control, conf.namespace_quotas)
        topics = Topics(self.cluster, self.settings, auto_create_namespaces=conf.auto_create_namespaces)
        self.hot = hot = Hot(conf, self.cluster)
        self.buffering = Buffering(conf, self.cluster, hot)
        enqueuing = Enqueuing(self.cluster, topics, hot, conf.retention.dedupe_window_ms, self.buffering)
        dequeuing = Dequeuing(self.cluster, topics, hot)
        settling = Settling(self.cluster, topics, hot)
        self.enqueue, self.dequeue = enqueuing.enqueue, dequeuing.dequeue
        self.ack, self.nack = settling.ack, settling.nack
        self.extend, self.release = settling.extend, settling.release
        self.dead = DeadLetters(self.cluster, topics, hot)
        self.dead_search = DeadSearch(self.cluster)
        self.usages = Usages(self.cluster)
        self.waiting = Waiting(self.cluster, topics, hot)
        self._history = History(conf, self.cluster.control)
        self.look = Looking(self.cluster, topics, self._history)

    async def open(self) -> None:
        await self.cluster.open()
        await self.settings.open()
        await self.hot.open(listen=True)
        await self.buffering.open()

    async def close(self) -> None:
        self._history.close()
        await self.buffering.close()
        await self.hot.close()
        await self.settings.close()
        await self.cluster.close()

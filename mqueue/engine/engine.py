"""The queue as one object: what a process opens once and calls for every request."""

from mqueue.core.conf import Conf
from mqueue.engine.admission import Admission
from mqueue.engine.buckets import Buckets
from mqueue.engine.buffering import Buffering
from mqueue.engine.dead import DeadLetters
from mqueue.engine.dead_search import DeadSearch
from mqueue.engine.dequeue import Dequeuing
from mqueue.engine.enqueue import Enqueuing
from mqueue.engine.history import History
from mqueue.engine.hot import Hot
from mqueue.engine.levels import Counts, Levels
from mqueue.engine.look import Looking
from mqueue.engine.rollups import Rollups
from mqueue.engine.settle import Settling
from mqueue.engine.throttle import Throttle
from mqueue.engine.topics import Topics
from mqueue.engine.uncommitted import Uncommitted
from mqueue.engine.usage import Usages
from mqueue.engine.waiting import Waiting
from shards.cluster import Cluster
from tenants.registry import Name
from tenants.settings_cache import SettingsCache


class Engine:
    def __init__(self, conf: Conf) -> None:
        self.cluster = Cluster(conf)
        self.settings = SettingsCache(self.cluster.control, conf.namespace_quotas)
        topics = Topics(self.cluster, self.settings, auto_create_namespaces=conf.auto_create_namespaces)
        weights = self.settings.weights
        self.hot = hot = Hot(conf, self.cluster, weights)
        self.buffering = Buffering(conf, self.cluster, hot)
        enqueuing = Enqueuing(self.cluster, topics, hot, conf.retention.dedupe_window_ms, self.buffering, weights)
        self.buckets = buckets = Buckets(hot.limits, conf.api.workers)
        levels = Levels(hot.limits, Counts(self.cluster), conf.api.workers)

        def throttle(name: Name, topic: int) -> Throttle:
            return Throttle(name, topic, self.settings, buckets, levels)

        dequeuing = Dequeuing(self.cluster, topics, hot, throttle, weights)
        settling = Settling(self.cluster, topics, hot, weights)
        self.enqueue, self.dequeue = enqueuing.enqueue, dequeuing.dequeue
        self._uncommitted = Uncommitted(levels, self.buffering)
        admission = Admission(self.settings, buckets, levels, self._uncommitted, self.enqueue, enqueuing.repeated)
        self.enqueue_within_quotas = admission.enqueue
        self.ack, self.nack = settling.ack, settling.nack
        self.extend, self.release = settling.extend, settling.release
        self.dead = DeadLetters(self.cluster, topics, hot)
        self.dead_search = DeadSearch(self.cluster)
        self.usages = Usages(self.cluster)
        self.rollups = Rollups(self.cluster)
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
        await self._uncommitted.close()
        await self.buffering.close()
        await self.hot.close()
        await self.settings.close()
        await self.cluster.close()

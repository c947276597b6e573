"""/metrics: what all processes counted, and what the databases say now, in Prometheus' format."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

import redis.asyncio
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from mqueue.api.handlers import Answer
from mqueue.core import metrics, seats
from mqueue.core.conf import Conf
from mqueue.engine.depths import Depths
from mqueue.hot.buffer import Buffer
from mqueue.hot.connection import connect
from mqueue.wal.folder import WalDir
from shards.cluster import Cluster

FRESH_FOR_S = 1.0
REDIS_PATIENCE_S = 0.5
SERVICES = ("api", "daemons", "celery")
DEPTHS = ("mqueue_ready_queue_depth", "mqueue_scheduled", "mqueue_in_flight", "mqueue_dead_letters")
AGE = "mqueue_oldest_ready_age_seconds"


class Families:
    """What an encoder takes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


class Exposition:
    def __init__(self, conf: Conf, cluster: Cluster, folder: Path | None) -> None:
        """Without a folder there is only this process, as in a test."""
        self._cluster, self._folder = cluster, folder
        topics = max(1, conf.metrics.topics // len(cluster.shards))
        self._depths = [Depths(shard, topics, conf.pool.statement_timeout_ms) for shard in cluster.shards]
        self._redis: redis.asyncio.Redis = connect(conf.redis, timeout_s=REDIS_PATIENCE_S)
        self._buffers = [Buffer(self._redis, number) for number in range(len(cluster.shards))]
        self._wal = WalDir(conf.wal_dir)
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[float, Families] = (-FRESH_FOR_S, Families(()))

    async def close(self) -> None:
        await self._redis.aclose()

    async def answer(self, accept: str, reach: frozenset[str] | None = None) -> Answer:
        """Of these namespaces, and of what is nobody's; None is all."""
        encode, content_type = choose_encoder(accept)
        families = await self._families()
        if reach is not None:
            families = Families([_within(reach, family) for family in families.collect()])
        text = await asyncio.to_thread(encode, families)
        return 200, {"content-type": content_type, "cache-control": "no-store"}, text

    async def _families(self) -> Families:
        """Two that scrape at once share the work."""
        async with self._one_at_a_time:
            if time.monotonic() - self._last[0] >= FRESH_FOR_S:
                families = [*await asyncio.to_thread(self._counted), *await self._looked_up()]
                self._last = time.monotonic(), Families(families)
            return self._last[1]

    def _counted(self) -> list[Metric]:
        """Not on the event loop: many topics are many numbers."""
        source = REGISTRY if self._folder is None else _files(self._folder)
        found = list(source.collect())
        names = {family.name for family in found}
        empty = [family for metric in metrics.every() for family in metric.describe() if family.name not in names]
        return found + empty

    async def _looked_up(self) -> list[Metric]:
        health, buffered, wal, *of_shards = await asyncio.gather(
            self._health(),
            self._buffered(),
            asyncio.to_thread(self._of_wal),
            *(self._of_shard(depths) for depths in self._depths),
        )
        gauges: dict[str, Metric] = {name: metrics.gauge(name) for name in metrics.GAUGES}
        sums: dict[tuple[str, metrics.Name], float] = {}
        for name, labels, value in [
            *health,
            *buffered,
            *wal,
            *self._processes(),
            *(sample for part in of_shards for sample in part),
        ]:
            if labels == (metrics.OTHER, metrics.OTHER):  # of every shard: one series
                together = max if name == AGE else float.__add__
                sums[name, labels] = together(sums.get((name, labels), 0.0), float(value))
            else:
                gauges[name].add_metric(labels, value)  # type: ignore[attr-defined]
        for (name, labels), value in sums.items():
            gauges[name].add_metric(labels, value)  # type: ignore[attr-defined]
        return list(gauges.values())

    async def _of_shard(self, depths: Depths) -> list["Sample"]:
        shard = (str(depths.shard.number),)
        counted = await depths.read()
        if counted is None:
            return []
        samples: list[Sample] = [("mqueue_depth_age_seconds", shard, time.monotonic() - counted.at)]
        samples.append(("mqueue_log_horizon_seconds", shard, counted.horizon_s))
        for namespace, topic, *numbers in counted.rows:
            place = (namespace, topic)
            samples += [(name, place, value) for name, value in zip((*DEPTHS, AGE), numbers, strict=True)]
        return samples

    async def _buffered(self) -> list["Sample"]:
        """Nothing where Redis does not answer: nobody knows."""
        try:
            return [("mqueue_buffer_queue_depth", (str(one.shard),), await one.depth()) for one in self._buffers]
        except (redis.RedisError, OSError, TimeoutError):
            return []

    def _of_wal(self) -> list["Sample"]:
        usage = self._wal.usage()
        return [("mqueue_wal_bytes", (), usage.bytes), ("mqueue_wal_quarantined", (), usage.quarantined)]

    async def _health(self) -> list["Sample"]:
        parts = {str(shard.number): shard.is_up for shard in self._cluster.shards}
        parts |= {"control": self._cluster.control.is_up, "redis": await self._redis_answers()}
        return [("mqueue_shard_health", (name,), is_up) for name, is_up in parts.items()]

    async def _redis_answers(self) -> bool:
        try:
            return bool(await self._redis.ping())
        except (redis.RedisError, OSError, TimeoutError):
            return False

    def _processes(self) -> list["Sample"]:
        if self._folder is None:
            return []
        found = dict.fromkeys(SERVICES, 0) | seats.sitting(self._folder)
        return [("mqueue_processes", (service,), number) for service, number in found.items()]


def _files(folder: Path) -> MultiProcessCollector:
    return MultiProcessCollector(None, str(folder))  # type: ignore[no-untyped-call]


Sample = tuple[str, tuple[str, ...], float]


def _within(reach: frozenset[str], family: Metric) -> Metric:
    found = Metric(family.name, family.documentation, family.type, family.unit)
    found.samples = [one for one in family.samples if one.labels.get("namespace", "") in {"", *reach}]
    return found

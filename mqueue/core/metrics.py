"""Every number that we show, and the short ways to count.

Counters and histograms are kept by the process where something happens, in the files of its seat, and added up when
somebody asks (`mqueue/api/exposition.py`). Gauges are looked up then: no process keeps one, so none can outlive it.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from prometheus_client import Counter, Histogram, values
from prometheus_client.metrics_core import GaugeMetricFamily

from mqueue.core.conf import conf
from mqueue.core.seats import Seat, labels_in

FOLDER = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]) if "PROMETHEUS_MULTIPROC_DIR" in os.environ else None
if FOLDER:  # before the first metric is made, here or in django-prometheus
    values.ValueClass = Seat(FOLDER, os.environ.get("MQUEUE_SERVICE", "other")).cell

COUNTS = FOLDER is None or conf().metrics.counters
OTHER = "_other"  # no namespace and no topic can be called so
PLACE = ("namespace", "topic")
T = TypeVar("T")
Name = tuple[str, str]


class Placed(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def topic(self) -> str: ...


class Names:
    """The topics that this process tells apart: those that others of the service did when it began, then the first that
    it meets. All others are `_other`: however many processes follow each other, there are no more than a few times
    that many."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._known: set[Name] = set()

    def shown(self, name: Name) -> Name:
        if self._most is None:
            self._most = conf().metrics.topics
            met = {(one["namespace"], one.get("topic", "")) for one in labels_in(FOLDER) if "namespace" in one}
            self._known |= {name for name in met if OTHER not in name}
        if name in self._known:
            return name
        if len(self._known) >= self._most:
            return OTHER, OTHER
        self._known.add(name)
        return name


NAMES = Names()


class TopicCounter:
    """By namespace and topic. One addition a batch and topic, however many messages."""

    def __init__(self, name: str, help_text: str, *more: str, names: Names = NAMES) -> None:
        self.metric = Counter(name, help_text, (*PLACE, *more))
        self._names = names
        self._children: dict[tuple[str, ...], Counter] = {}

    def add(self, count: int, *labels: str) -> None:
        """The labels are the namespace, the topic, and whatever else this counter has."""
        if not COUNTS:
            return
        child = self._children.get(labels)
        if child is None:
            place = self._names.shown((labels[0], labels[1]))
            child = self.metric.labels(*place, *labels[2:])
            if place == labels[:2]:
                self._children[labels] = child
        child.inc(count)

    def count(self, messages: Iterable[Placed], *more: str) -> None:
        if not COUNTS:
            return
        counts: dict[Name, int] = {}
        for message in messages:
            name = (message.namespace, message.topic)
            counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            self.add(count, *name, *more)


class Distribution(Histogram):
    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        if not COUNTS:
            return
        self._sum.inc(amount)
        self._buckets[bisect_left(self._upper_bounds, amount)].inc(1)

    def observe_each(self, amounts: Iterable[float]) -> None:
        """As `observe` of each, at the cost of a few."""
        if not COUNTS:
            return
        counts: dict[int, int] = {}
        total = 0.0
        for amount in amounts:
            total += amount
            place = bisect_left(self._upper_bounds, amount)
            counts[place] = counts.get(place, 0) + 1
        if counts:
            self._sum.inc(total)
        for place, count in counts.items():
            self._buckets[place].inc(count)


async def timed(seconds: Histogram, work: Awaitable[T]) -> T:
    """Observe how long it took, unless it failed."""
    began = time.perf_counter()
    done = await work
    seconds.observe(time.perf_counter() - began)
    return done


QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LONG = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

ENQUEUED = TopicCounter("mqueue_enqueue_total", "Messages that were committed; duplicates are none")
BUFFERED = TopicCounter("mqueue_buffered_total", "Messages that were taken into the buffer, to be committed later")
DEQUEUED = TopicCounter("mqueue_dequeue_total", "Messages that were handed out, again ones too")
ACKED = TopicCounter("mqueue_ack_total", "Messages that were acked; a repeated ack is none")
NACKED = TopicCounter("mqueue_nack_total", "Leases that were nacked; a repeated nack is none")
DIED = TopicCounter("mqueue_dead_letter_total", "Messages that became dead letters", "reason")
REDELIVERED = TopicCounter(
    "mqueue_redelivery_total", "Failed deliveries, nacked or lapsed, after which the message waits"
)

COMMIT_SECONDS = Distribution("mqueue_commit_seconds", "One commit of messages on a shard", ["shard"], buckets=QUICK)
CLAIM_SECONDS = Distribution("mqueue_claim_seconds", "One claim on a shard, payloads read", ["shard"], buckets=QUICK)
DEQUEUE_SECONDS = Distribution(
    "mqueue_dequeue_seconds", "A dequeue that got something, from when there was something to try for", buckets=QUICK
)
END_TO_END_SECONDS = Distribution("mqueue_end_to_end_seconds", "From when a message was due to its ack", buckets=LONG)
BATCH_SIZE = Distribution("mqueue_coalesced_batch_size", "Callers that shared one call", ["coalescer"], buckets=SIZES)
WAL_SECONDS = Distribution("mqueue_wal_seconds", "One write to the log of buffered messages, synced", buckets=QUICK)
REFUSED = Counter("mqueue_buffer_refused_total", "Buffered messages that could not be committed, and were set aside")
PUSHED_BACK = Counter("mqueue_pushed_back_total", "Requests that were told to try again, by code", ["reason"])
LIMITED = Counter("mqueue_refused_total", "Requests that a quota or a limit refused", ["namespace", "limit"])
ROUNDS = Counter("mqueue_daemon_rounds_total", "Rounds that a daemon finished", ["daemon"])

# Looked up at a scrape: what each means, and its labels.
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "mqueue_ready_queue_depth": ("Messages that are due and that nobody holds", PLACE),
    "mqueue_scheduled": ("Messages that are not due yet", PLACE),
    "mqueue_in_flight": ("Messages that a consumer holds", PLACE),
    "mqueue_dead_letters": ("Dead letters", PLACE),
    "mqueue_oldest_ready_age_seconds": ("How long the oldest ready message has been due", PLACE),
    "mqueue_depth_age_seconds": ("How long ago the messages of a shard were counted", ("shard",)),
    "mqueue_log_horizon_seconds": ("For how long a transaction has held back who reads the log", ("shard",)),
    "mqueue_buffer_queue_depth": ("Messages that are taken and not yet committed", ("shard",)),
    "mqueue_wal_bytes": ("What the logs of buffered messages on this node hold", ()),
    "mqueue_wal_quarantined": ("Segments of these logs that were set aside", ()),
    "mqueue_shard_health": ("1 if it answers, 0 if not: a shard, control, redis", ("shard",)),
    "mqueue_processes": ("Live processes that count", ("service",)),
}


def gauge(name: str) -> GaugeMetricFamily:
    help_text, labels = GAUGES[name]
    return GaugeMetricFamily(name, help_text, labels=labels)


def every() -> list[Counter | Histogram]:
    all_of_them = [value.metric if isinstance(value, TopicCounter) else value for value in globals().values()]
    return [value for value in all_of_them if isinstance(value, Counter | Histogram)]


def failed(outcomes: Iterable[tuple[str, str, str | None]]) -> None:
    """What became of failed deliveries: namespace, topic, and why it is dead, or None if it waits again."""
    counts: dict[tuple[str, str, str | None], int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    for (namespace, topic, reason), count in counts.items():
        if reason is None:
            REDELIVERED.add(count, namespace, topic)
        else:
            DIED.add(count, namespace, topic, reason)


def refused(limit: str, namespace: str = OTHER) -> None:
    """Namespaces are bounded as topics are."""
    LIMITED.labels(NAMES.shown((namespace, ""))[0] if namespace != OTHER else OTHER, limit).inc()

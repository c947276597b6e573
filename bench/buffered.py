"""Single enqueues to a buffered topic beside those to one that commits, in the same rounds of one service."""

import time
from functools import partial

import redis

from bench.child import Sample, load
from bench.control import set_topic
from bench.rows import Row
from bench.service import Service
from bench.stage import Measure, Stage, play
from mqueue.hot import keys

NAMES = ("buffered_enqueue",)
TITLES = {"buffered": "enqueue to a buffered topic, one a request", "commit": "enqueue, one a request"}
DRAIN_S = 120.0


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Rounds of both; what was buffered is flushed before the next begins."""
    with Service() as service:
        set_topic(service, "buffered", durability="buffered")
        measures = [
            Measure(title, {f"{n} connections": partial(enqueue, stage, service, topic, n) for n in (64, 128)})
            for topic, title in TITLES.items()
        ]
        ours, against = play(stage, measures)
    return [Row("buffered_enqueue", ours.title, "messages/s", ours, against, at_least=1.0)]


def enqueue(stage: Stage, service: Service, topic: str, connections: int) -> Sample:
    """As many as are answered; and how long it takes until all of them are committed."""
    sample = load(service, stage.seconds, "enqueue", connections=connections, batch=0, topic=topic)
    sample.result["flushed_after_s"] = flush(service)
    return sample


def flush(service: Service) -> float:
    """Wait until the buffer is empty; the seconds it took."""
    began = time.monotonic()
    client = redis.Redis.from_url(service.conf.redis.url)
    while client.xlen(keys.buffer(0)) and time.monotonic() - began < DRAIN_S:
        time.sleep(0.01)
    return time.monotonic() - began

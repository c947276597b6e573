"""Very many topics with one message each: a dequeue of any of them."""

import random
from functools import partial
from typing import Any

from bench.child import run
from bench.core import fill
from bench.latency import RATE
from bench.rows import Row, Series
from bench.service import Service
from bench.stage import Stage, try_once

TOPICS, SECONDS = 100_000, 10.0
NAMES = ("many_topics",)


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Dequeues of random topics, on schedule; none is asked twice."""
    count = stage.scaled(TOPICS)
    series = Series(f"a dequeue of any of {count:,} topics with one message each, p99")
    with Service() as service:
        sample = fill(service, "many", count, topics=count)
        stage.say(f"{count:,} topics made: {sample.rate:,.0f}/s")
        order = random.sample(range(count), count)
        seconds = max(SECONDS, stage.seconds) if stage.scale == 1 else stage.seconds
        asked = min(int(RATE * seconds), count // stage.rounds)
        for turn in range(stage.rounds):
            chosen = [f"many-{n}" for n in order[turn * asked : (turn + 1) * asked]]
            orders: dict[str, Any] = {"ports": service.ports, "token": service.token, "work": "topics"}
            orders |= {"names": chosen, "rate": RATE, "seconds": asked / RATE}
            measure = partial(run, service, "bench.latency_load", orders, service.conf.shard_urls[0])
            if found := try_once(stage, series.title, measure):
                series.values.append(found.result["p99"])
                series.costs.append(found.cost)
    return [Row("many_topics", series.title, "ms", series, at_most=25)]

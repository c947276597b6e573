"""How long single messages take: to a consumer that waits, and after the time for which they were scheduled."""

from functools import partial
from typing import Any

from bench.child import Sample, run
from bench.rows import Row, Series
from bench.service import Service
from bench.stage import Stage, try_once

RATE = 100
LEAST_S = 5.0  # the 99th percentile of fewer messages would be a matter of luck
TITLES = {
    "latency": f"enqueue to a waiting dequeue at {RATE} messages/s",
    "lateness": f"delayed messages after their time, at {RATE} messages/s",
}
CEILINGS = {"latency_p50": 5.0, "latency_p99": 25.0, "lateness_p50": 10.0, "lateness_p99": 50.0}
NAMES = ("latency", "lateness")


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Rounds of both."""
    found: dict[str, dict[str, Series]] = {name: {} for name in NAMES if name in names}
    works = {"latency": "waiting", "lateness": "late"}
    with Service() as service:
        for turn in range(stage.rounds):
            for name, series in found.items():
                seconds = max(stage.seconds, LEAST_S) if stage.seconds >= 1 else stage.seconds
                orders = {"work": works[name], "rate": RATE, "seconds": seconds, "topic": f"{name}-{turn}"}
                if sample := try_once(stage, TITLES[name], partial(measure, service, orders)):
                    note(series, TITLES[name], sample)
    return [as_row(name, quantile, series) for name in found for quantile, series in found[name].items()]


def measure(service: Service, orders: dict[str, Any]) -> Sample:
    """Milliseconds, by quantile."""
    spec = {"ports": service.ports, "token": service.token}
    return run(service, "bench.latency_load", spec | orders, service.conf.shard_urls[0])


def note(series: dict[str, Series], title: str, sample: Sample) -> None:
    """Add a round to the series of each quantile."""
    for quantile in ("p50", "p99"):
        into = series.setdefault(quantile, Series(f"{title}, {quantile}"))
        into.values.append(sample.result[quantile])
        into.costs.append(sample.cost)


def as_row(name: str, quantile: str, series: Series) -> Row:
    row = f"{name}_{quantile}"
    return Row(row, series.title, "ms", series, at_most=CEILINGS.get(row))

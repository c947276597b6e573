"""What a namespace that floods costs its neighbour: the neighbour's latencies with the flood beside it and without."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.child import LoadError, Sample, run
from bench.control import set_quotas
from bench.fairness_load import BATCH, FLOOD, QUIET
from bench.rows import Row, Series
from bench.service import TOKEN_LIFETIME_S, Service
from bench.speak import BEGIN
from bench.stage import Stage, try_once
from mqueue.core import tokens
from mqueue.core.conf import ROOT

RATE, TIMES = 20, 100  # of the neighbour, and how much more the flood sends
LEAST_S = 15.0  # the 99th percentile of fewer requests would be a matter of luck
CEILINGS = dict.fromkeys(("fairness", "fairness_quota", "fairness_batches"), 3.0)
VERBS = ("enqueue", "dequeue")
SINGLES = {"rate": RATE * TIMES, "connections": 128, "batches": False}
FLOODS: dict[str, dict[str, Any]] = {
    "fairness": SINGLES,
    "fairness_quota": SINGLES,
    "fairness_batches": {"rate": RATE * TIMES / BATCH, "connections": 8, "batches": True},
    "fairness_saturated": {"rate": None, "connections": 8, "batches": True},
}
TITLES = {
    "fairness": f"beside {TIMES} times as much",
    "fairness_quota": f"beside {TIMES} times as much, of which a quota refuses nine tenths",
    "fairness_batches": f"beside {TIMES} times as much, {BATCH:,} a request",
    "fairness_saturated": f"beside eight connections that enqueue {BATCH:,} a request, as fast as they are answered",
}
QUICK, OTHERS = ("fairness",), ("fairness_quota", "fairness_batches", "fairness_saturated")


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """What knows no bounds leaves millions of rows behind, and a service that is busy with them: it has its own."""
    tame = [name for name in FLOODS if name in names and name in CEILINGS]
    wild = [name for name in FLOODS if name in names and name not in CEILINGS]
    return [row for group in (tame, wild) if group for row in beside(stage, group)]


def beside(stage: Stage, names: list[str]) -> list[Row]:
    """In each round the neighbour alone, and then beside each flood."""
    seconds = max(stage.seconds, LEAST_S) if stage.seconds >= 1 else stage.seconds
    alone = {verb: Series(f"{verb} of {RATE} a second, p99, alone") for verb in VERBS}
    found = {name: {verb: Series(f"{verb}, p99, {TITLES[name]}") for verb in VERBS} for name in names}
    with Service() as service:
        measured = partial(measure, service, seconds)
        for _ in range(stage.rounds):
            note(alone, try_once(stage, "the neighbour alone", measured))
            for name, series in found.items():
                quota = RATE * TIMES * 6 if name == "fairness_quota" else None
                set_quotas(service, FLOOD, messages_per_minute=quota)
                with flooding(service, FLOODS[name]):
                    note(series, try_once(stage, f"the neighbour {TITLES[name]}", measured))
    return [
        Row(f"{name}_{verb}", series[verb].title, "us", series[verb], alone[verb], at_most=CEILINGS.get(name))
        for name, series in found.items()
        for verb in VERBS
    ]


def measure(service: Service, seconds: float) -> Sample:
    spec = {"ports": service.ports, "token": token(service, QUIET), "work": "quiet", "rate": RATE, "seconds": seconds}
    return run(service, "bench.fairness_load", spec, service.conf.shard_urls[0])


def token(service: Service, namespace: str) -> str:
    """Each tenant has its own."""
    return tokens.make(service.conf.jwt_secret, namespace, [namespace], ["*"], TOKEN_LIFETIME_S)


def note(series: dict[str, Series], sample: Sample | None) -> None:
    """In microseconds: they are few milliseconds."""
    if sample is None:
        return
    for verb, into in series.items():
        into.values.append(1_000 * sample.result[verb]["p99"])
        into.costs.append(sample.cost)


@contextmanager
def flooding(service: Service, orders: dict[str, Any]) -> Iterator[None]:
    """Until the end of the context."""
    spec = {"ports": service.ports, "token": token(service, FLOOD), "work": "flood", "seconds": 3600} | orders
    with subprocess.Popen(
        [sys.executable, "-m", "bench.fairness_load"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin
        assert child.stdout
        try:
            child.stdin.write(f"{json.dumps(spec)}\n")
            child.stdin.flush()
            if child.stdout.readline() != BEGIN:
                raise LoadError("the flood did not begin")
            yield
        finally:
            child.kill()

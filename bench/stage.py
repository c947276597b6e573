"""What the scenes share: how long, how often, how large, and a word to whoever waits."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import psycopg

from bench.child import LoadError, Sample
from bench.rows import Series
from bench.service import ServiceError

TROUBLE = (LoadError, ServiceError, psycopg.Error)
T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """The orders of a run."""

    seconds: float = 3.0
    rounds: int = 3
    scale: float = 1.0
    churn_seconds: float = 300.0
    failures: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """A line of progress."""
        print(f"bench {time.monotonic() - self.began:7.1f} s  {text}", file=sys.stderr, flush=True)

    def attempt(self, label: str, work: Callable[[], T]) -> T | None:
        """Do it; what fails is said, noted and left out, and the run goes on."""
        try:
            return work()
        except TROUBLE as error:
            self.say(f"{label}: FAILED: {error}")
            self.failures.append(f"{label}: {error}")
            return None

    def scaled(self, count: int) -> int:
        """A number of messages, as large as this run wants them."""
        return max(1000, round(count * self.scale / 1000) * 1000)


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure, and the ways to get at it: of several, a round takes the best."""

    title: str
    ways: Mapping[str, Callable[[], Sample]]


def play(stage: Stage, measures: list[Measure]) -> list[Series]:
    """Rounds of all measures in turn, so that what disturbs the machine disturbs them alike."""
    found = [Series(measure.title) for measure in measures]
    for turn in range(stage.rounds):
        for measure, series in zip(measures, found, strict=True):
            add_round(stage, f"round {turn + 1} of {stage.rounds}", measure, series)
    return found


def add_round(stage: Stage, turn: str, measure: Measure, series: Series) -> None:
    """Measure once in each way."""
    samples = {}
    for name, way in measure.ways.items():
        label = f"{turn}: {measure.title}{f', {name}' if name else ''}"
        if sample := try_once(stage, label, way):
            samples[name] = sample
    if samples:
        best = max(samples.values(), key=lambda sample: sample.rate)
        series.values.append(best.rate)
        series.costs.append(best.cost)
        series.variants.append({name: sample.rate for name, sample in samples.items()})


def try_once(stage: Stage, label: str, way: Callable[[], Sample]) -> Sample | None:
    """Measure, and say what was found."""
    if sample := stage.attempt(label, way):
        stage.say(f"{label}: {said(sample)}")
    return sample


def said(sample: Sample) -> str:
    """The figure in a few words."""
    if "p99" in sample.result:
        return f"p50 {sample.result['p50']:.1f} ms, p99 {sample.result['p99']:.1f} ms"
    return f"{sample.rate:,.0f}/s"

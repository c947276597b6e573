"""The network between the service and its servers."""

from collections.abc import Callable, Iterator
from random import Random

from tests.faults.checker.faults.catalogue import Hold, fault
from tests.faults.checker.stage import Stage


def _line(name: str, names: Callable[[Stage, Random], str], words: str) -> None:
    @fault(f"{name}-slow")
    def slow(stage: Stage, rng: Random) -> Iterator[Hold]:
        target, delay_s = names(stage, rng), rng.uniform(0.05, 0.4)
        stage.lines.obey(target, "delay", delay_s)
        yield Hold(f"{target}, {delay_s * 1000:.0f} ms", rng.uniform(2, 5))
        stage.lines.obey(target, "delay", 0)

    @fault(f"{name}-cut")
    def cut(stage: Stage, rng: Random) -> Iterator[Hold]:
        target = names(stage, rng)
        stage.lines.obey(target, "cut")
        yield Hold(target, 0.2)

    @fault(f"{name}-refused")
    def refused(stage: Stage, rng: Random) -> Iterator[Hold]:
        target = names(stage, rng)
        stage.lines.obey(target, "refuse")
        yield Hold(target, rng.uniform(0.5, 4))
        stage.lines.obey(target, "accept")

    @fault(f"{name}-silent")
    def silent(stage: Stage, rng: Random) -> Iterator[Hold]:
        target = names(stage, rng)
        stage.lines.obey(target, "freeze")
        yield Hold(target, rng.uniform(2, 9))
        if rng.random() < 0.5:
            stage.lines.obey(target, "cut")
        stage.lines.obey(target, "thaw")

    @fault(f"{name}-stranded")
    def stranded(stage: Stage, rng: Random) -> Iterator[Hold]:
        target = names(stage, rng)
        stage.lines.obey(target, "strand")
        yield Hold(target, 0.2)

    stranded.__doc__ = f"Connections to {words} die without a word; new ones do well"
    slow.__doc__ = f"The network to {words} takes its time"
    cut.__doc__ = f"Connections to {words} are cut"
    refused.__doc__ = f"Connections to {words} are cut, and new ones refused"
    silent.__doc__ = f"The network to {words} swallows everything, and tells nobody"


def _redis(stage: Stage, rng: Random) -> str:
    return stage.redis.name


_line("database-line", lambda stage, rng: stage.database(rng).name, "a database")
_line("redis-line", _redis, "Redis")

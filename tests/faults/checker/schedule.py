"""Which fault comes when: all by turns, in an order that the seed gives, and now and then two at once."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import psycopg

from tests.faults.checker.faults import FAULTS, Hold
from tests.faults.checker.stage import Stage
from tests.faults.checker.times import SECOND, now

PAUSE_S = (1.0, 4.0)  # between two faults, when all is well again
HEAL_S = 40.0  # waited for at most; the verdict says what is too long
TOGETHER_ONE_IN = 6
TRIES = 4  # of a fault that must have its turn


class Injected(NamedTuple):
    name: str
    what: str
    began: int
    ended: int  # when it was mended
    well_at: int  # when /health said so, 0: not within HEAL_S
    is_done: bool = True


class Schedule:
    """`pace` shortens holds and pauses: 1 as they are written, 0.3 in a hurry."""

    def __init__(self, stage: Stage, names: list[str], seed: str, folder: Path, pace: float) -> None:
        self._stage, self._names, self._pace = stage, names, pace
        self._rng = Random(f"{seed}/faults")
        self._done: set[str] = set()
        self._file = open(folder / "faults.jsonl", "a")  # noqa: SIM115  open for as long as we run

    def run(self, seconds: float, *, once: bool) -> None:
        """Until the time is over; `once`: or until each fault had its turn. What could not be done is tried again."""
        deadline = time.monotonic() + seconds
        for name in self._each_once() if once else self._for_ever():
            if time.monotonic() > deadline:
                break
            if name:
                self._inject(name, None if once else self._another(name))
            time.sleep(self._rng.uniform(*PAUSE_S) * self._pace)
        self._file.close()

    def _each_once(self) -> Iterator[str]:
        for _ in range(TRIES):
            names = [name for name in self._names if name not in self._done]
            self._rng.shuffle(names)
            yield from names

    def _for_ever(self) -> Iterator[str]:
        while self._names:
            names = list(self._names)
            self._rng.shuffle(names)
            yield from names
        while True:
            time.sleep(1.0)  # no fault at all was asked for
            yield ""

    def _another(self, name: str) -> str | None:
        """To go with it, now and then."""
        other = self._rng.choice(self._names)
        return other if other != name and self._rng.randrange(TOGETHER_ONE_IN) == 0 else None

    def _inject(self, name: str, second: str | None) -> None:
        faults = [(each, FAULTS[each].inject(self._stage, self._rng)) for each in (name, second) if each]
        began = {}
        holds = {}
        for each, steps in faults:
            began[each] = now()
            holds[each] = self._step(steps) or Hold("it could not be done", 0, is_done=False)
        time.sleep(max(hold.seconds for hold in holds.values()) * self._pace)
        ended = {}
        for each, steps in reversed(faults):
            self._step(steps)
            ended[each] = now()
        well_at = now() if self._stage.until_well(HEAL_S) else 0
        for each, _ in faults:
            one = Injected(each, holds[each].what, began[each], ended[each], well_at, holds[each].is_done)
            self._done |= {each} if one.is_done else set()
            self._file.write(json.dumps(one) + "\n")
        self._file.flush()
        healing = (well_at - max(ended.values())) / SECOND
        print(
            f"  {' with '.join(f'{each} ({holds[each].what})' for each in holds)}: "
            + (f"well {healing:.1f} s after its end" if well_at else f"NOT WELL after {HEAL_S:.0f} s"),
            flush=True,
        )

    @staticmethod
    def _step(steps: Iterator[Hold]) -> Hold | None:
        with suppress(psycopg.Error):  # another fault may have taken the session that this one holds
            return next(steps, None)
        return None


def injected(folder: Path) -> list[Injected]:
    return [Injected(*json.loads(line)) for line in (folder / "faults.jsonl").read_text().splitlines()]

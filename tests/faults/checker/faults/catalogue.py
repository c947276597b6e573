"""What a fault is. It breaks something, yields what and for how long it stays so, and mends it when it is asked again.
Whatever has to come back by itself is not mended."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tests.faults.checker.stage import Stage


class Hold(NamedTuple):
    what: str
    seconds: float
    is_done: bool = True  # False: it could not be done this time


Inject = Callable[[Stage, Random], Iterator[Hold]]


@dataclass(frozen=True)
class Fault:
    name: str
    inject: Inject
    needs_disk: bool = False
    order_is_promised: bool = True  # while /health says OK
    forgets: bool = False  # Redis may lose what it was given

    @property
    def what(self) -> str:
        return (self.inject.__doc__ or "").strip()


FAULTS: dict[str, Fault] = {}


def fault(name: str, **more: bool) -> Callable[[Inject], Inject]:
    def add(inject: Inject) -> Inject:
        FAULTS[name] = Fault(name, inject, **more)
        return inject

    return add

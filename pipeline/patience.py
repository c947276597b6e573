"""Reading again what could not be read for a moment: a shard may restart, and a server of Spark forgets who rests."""

import threading
from collections.abc import Callable
from typing import TypeVar

from pipeline.errors import TaskFailed
from pipeline.spark import Sessions, telling_failures

WAITS_S = (1, 2, 4, 8, 16, 32, 32, 32)  # two minutes in all
T = TypeVar("T")
Say = Callable[[str], None]


class Patience:
    """What never went well is not tried again: it would seem to be wrong by itself."""

    def __init__(self, sessions: Sessions, say: Say) -> None:
        self._sessions, self._say = sessions, say
        self._stopped = threading.Event()
        self._went_well = False

    def stop(self) -> None:
        """Nobody waits for it any more."""
        self._stopped.set()

    def with_(self, work: Callable[[], T]) -> T:
        """Its answer, in the end."""
        for wait_s in (*WAITS_S, None):
            try:
                with telling_failures():
                    found = work()
            except TaskFailed as failed:
                if not self._went_well or wait_s is None:
                    raise
                self._say(f"{failed}. Again in {wait_s} s")
                if self._stopped.wait(wait_s):
                    raise
                if self._sessions.remote:
                    self._sessions.end()
            else:
                self._went_well = True
                return found
        raise AssertionError("unreachable")

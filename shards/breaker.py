"""When to stop asking a database that does not answer."""

import time
from collections.abc import Callable

FAILURES_IN_A_ROW = 3
GRACE_S = 0.5


class Breaker:
    """Open means: refuse at once. Whoever owns it probes the database and closes it again.

    A failed connection attempt opens it at once, unless a statement succeeded a moment ago: a server that is merely
    out of connections still serves those it has.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._last_success = float("-inf")
        self.is_open = False
        self.reason = ""

    def succeeded(self) -> None:
        self._failures = 0
        self._last_success = self._clock()

    def failed(self, reason: str, *, connecting: bool = False) -> bool:
        """True when this failure opened it."""
        if self.is_open:
            return False
        self._failures += 1
        lonely = connecting and self._clock() - self._last_success > GRACE_S
        if not lonely and self._failures < FAILURES_IN_A_ROW:
            return False
        self.is_open, self.reason = True, reason
        return True

    def close(self) -> None:
        self.is_open, self.reason, self._failures = False, "", 0
        self.succeeded()

"""Looks at everything, for what fell through: cheap as a rule, and dear while a transaction that is held open keeps
every dead row. A dear one is made less often, so that they never take more than a fiftieth of the time."""

import contextlib
import time
from collections.abc import Iterator

SHARE = 50


class Sparing:
    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._due_at = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due_at

    @contextlib.contextmanager
    def look(self) -> Iterator[None]:
        """Around it; also one that fails counts."""
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            self._due_at = began + took + max(self._every_s - took, SHARE * took)

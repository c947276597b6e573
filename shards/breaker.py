"""When to stop asking a database that does not answer."""

FAILURES_IN_A_ROW = 3


class Breaker:
    """Open means: refuse at once. Whoever owns it probes the database and closes it again."""

    def __init__(self) -> None:
        self._failures = 0
        self.is_open = False
        self.reason = ""

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, reason: str, *, at_once: bool = False) -> bool:
        """True when this failure opened it: the third in a row, or one that leaves no doubt."""
        if self.is_open:
            return False
        self._failures += 1
        if not at_once and self._failures < FAILURES_IN_A_ROW:
            return False
        self.is_open, self.reason = True, reason
        return True

    def close(self) -> None:
        self.is_open, self.reason, self._failures = False, "", 0

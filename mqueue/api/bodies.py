"""How much of requests this process holds at once, however many clients send."""

COUNTED_FROM = 16 * 1024  # a smaller body costs less than the connection that it comes over


class Bodies:
    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0

    def take(self, size: int) -> bool:
        """Whether there is room for so many bytes more; the first body always finds some."""
        if self._held and self._held + size > self._most:
            return False
        self._held += size
        return True

    def give_back(self, size: int) -> None:
        self._held -= size

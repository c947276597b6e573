"""How much of requests this process holds at once, however many clients send."""

COUNTED_FROM = 16 * 1024  # a smaller body costs less than the connection that it comes over


class Bodies:
    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0

    def take(self, size: int, *, is_known: bool = True) -> bool:
        """Whether there is room for so many bytes more; the first body always finds some. Of whom nobody can tell yet
        who he is, half of the room is kept."""
        most = self._most if is_known else self._most // 2
        if self._held and self._held + size > most:
            return False
        self._held += size
        return True

    def give_back(self, size: int) -> None:
        self._held -= size

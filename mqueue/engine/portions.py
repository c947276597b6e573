"""Records in portions as they are pushed: of one entry's size, and without a gap."""

PUSH_BYTES = 1 << 20
Run = tuple[int, int, bytes]  # the numbers of the first and the last record, and all of them as they lie in the log


class Portions:
    def __init__(self, last: int = 0) -> None:
        self.last = last
        self._done: list[Run] = []
        self._frames: list[bytes] = []
        self._size = 0

    def add(self, number: int, frame: bytes) -> None:
        if self._frames and (self._size >= PUSH_BYTES or number != self.last + 1):
            self._end()
        self._frames.append(frame)
        self._size += len(frame)
        self.last = number

    def take(self, *, whole_only: bool = False) -> list[Run]:
        """Those that are complete; without `whole_only` also the one that is not."""
        if self._frames and not whole_only:
            self._end()
        done, self._done = self._done, []
        return done

    def _end(self) -> None:
        self._done.append((self.last - len(self._frames) + 1, self.last, b"".join(self._frames)))
        self._frames, self._size = [], 0

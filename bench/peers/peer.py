"""What the bench asks of a peer."""

import importlib.metadata
from collections.abc import Callable
from typing import Any, ClassVar

PAYLOAD = "x" * 198
Spec = dict[str, Any]
Count = Callable[[int], None]


class Peer:
    """One queue: `settings` says how it is used, `less` where it promises less than mqueue does."""

    package = ""
    settings = ""
    less = ""
    batches = True  # whether it can enqueue many in one call
    consumers = 1  # callers of `consume`
    # Processes to try, by work: a client in Python may use up a core before the server does.
    at_once: ClassVar[dict[str, tuple[int, ...]]] = {"single": (1, 2), "batch": (1, 2), "consume": (1, 2)}
    quickest = 5_000  # messages a second that it may consume: as many are put in before

    def __init__(self, spec: Spec) -> None:
        self.database: str = spec["database"]
        self.redis: str = spec["redis"]
        self.queue: str = spec["queue"]

    @classmethod
    def version(cls) -> str:
        """Of its package."""
        return importlib.metadata.version(cls.package)

    async def prepare(self) -> None:
        """Make its schema, once."""

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Leave."""

    async def enqueue(self) -> None:
        """One message of 200 bytes."""
        raise NotImplementedError

    async def enqueue_batch(self, count: int) -> None:
        """So many in one call."""
        raise NotImplementedError

    async def consume(self, count: Count) -> None:
        """Dequeue and settle until cancelled, and count what is done."""
        raise NotImplementedError

"""The Spark session of one run: begun when a verb first needs it, since it takes seconds, and ended with the run."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from pipeline.session import connected_session, session


@dataclass
class Sessions:
    name: str
    master: str = "local[2]"
    remote: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _spark: SparkSession | None = None

    @property
    def is_here(self) -> bool:
        """Whether all tasks run on this machine."""
        return self.remote is None and self.master.startswith("local")

    def get(self) -> SparkSession:
        if self._spark is None:
            begun = (
                connected_session(self.name, self.remote)
                if self.remote
                else session(self.name, self.master, **self.settings)
            )
            self._spark = self._stack.enter_context(begun)
        return self._spark

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()


def began_too_slowly(error: Exception) -> bool:
    """Spark waits ten seconds for a Python process to begin, which may be too short where much else is going on."""
    return "failed to connect back" in str(error)

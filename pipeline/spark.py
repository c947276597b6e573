"""The Spark session of one run: begun when a verb first needs it, since it takes seconds, and ended with the run."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.errors import TaskFailed
from pipeline.session import connected_session, end_java, session

OF_PYTHON = re.compile(r"^(?!Caused by|Traceback)\w[\w.]*: .+$", re.MULTILINE)  # how a traceback ends


@dataclass
class Sessions:
    name: str
    master: str = "local[2]"
    remote: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    keeps_java: bool = True  # after `end`, for whoever begins another
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

    def end(self) -> None:
        """Nobody needs it any more."""
        self._spark = None
        self._stack.close()
        if not self.keeps_java:
            end_java()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()


def began_too_slowly(error: Exception) -> bool:
    """Spark waits ten seconds for a Python process to begin, which may be too short where much else is going on."""
    return "failed to connect back" in str(error)


@contextmanager
def telling_failures() -> Iterator[None]:
    """What a task failed of, without where in Spark. Where Spark itself is gone, its own error tells it."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        told = OF_PYTHON.findall(str(error)) or str(error).strip().splitlines()[:1]
        raise TaskFailed(f"A task failed: {''.join(told[-1:])}") from error

"""How a run of the pipeline ends, other than well."""

from typing import ClassVar


class PipelineError(Exception):
    """The run cannot go on; the message says why."""

    exit_code: ClassVar[int] = 1


class NothingToDo(PipelineError):
    """There was nothing to do."""

    exit_code = 3


class Busy(PipelineError):
    """Another run is at it."""

    exit_code = 4


class VerificationFailed(PipelineError):
    """A copy is not what its origin is."""

    exit_code = 5


class TaskFailed(PipelineError):
    """A task of Spark has failed."""


class LogChanged(PipelineError):
    """Slots have moved to another shard while their log was read."""


class Fenced(Busy):
    """Somebody else has taken this over meanwhile; what we did does not count."""

"""What goes wrong with one part of a run, while the others go on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from pipeline.errors import Busy, PipelineError, VerificationFailed


class Troubles:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._found: list[PipelineError] = []

    @contextmanager
    def of(self, part: object) -> Iterator[None]:
        """Told at once, and kept until the end. Where another run has taken over, nothing goes on."""
        try:
            yield
        except Busy:
            raise
        except (PipelineError, psycopg.Error) as error:
            kind = VerificationFailed if isinstance(error, VerificationFailed) else PipelineError
            told = str(error).strip()
            self._found.append(kind(told if told.startswith(str(part)) else f"{part}: {told}"))
            self._say(str(self._found[-1]))

    def end(self) -> None:
        """In an error, if there were any: the worst of them."""
        if not self._found:
            return
        worst = next((one for one in self._found if isinstance(one, VerificationFailed)), self._found[0])
        others = f" (and {len(self._found) - 1} other troubles)" if len(self._found) > 1 else ""
        raise type(worst)(f"{worst}{others}")

"""One statement a file, named, with its parameters as %(name)s; the header says what it takes and answers."""

from functools import cache
from pathlib import Path
from typing import LiteralString

FOLDER = Path(__file__).parent


@cache
def statement(name: str) -> LiteralString:
    """The text of shards/sql/NAME.sql. Our own files only: nothing a client sent is ever part of a statement."""
    text: LiteralString = (FOLDER / f"{name}.sql").read_text()  # type: ignore[assignment,unused-ignore]
    return text

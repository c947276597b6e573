"""A migration's SQL lies in a file beside it: readable on its own, and frozen once it has shipped."""

from pathlib import Path

FOLDER = Path(__file__).parent / "migrations" / "sql"


def migration_sql(name: str) -> list[str]:
    """As one statement: RunSQL would otherwise need sqlparse to split function bodies."""
    return [(FOLDER / name).read_text()]

"""What runs on a user's machine imports nothing that only the tests install."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from mqueue.core.conf import ROOT

BASE, PIPELINE = "requirements.txt", "requirements-pipeline.txt"
PEERS = "bench/requirements-peers.txt"
INSTALLED = {  # by folder, which files are installed before it runs; the longest that fits
    **dict.fromkeys(("mqueue", "tenants", "shards", "daemons", "bench", "launch"), (BASE,)),
    "pipeline": (BASE, PIPELINE),
    "bench/pipeline": (BASE, PIPELINE, PEERS),  # DuckDB lies with the peers
    "bench/peers": (BASE, PEERS),
    **dict.fromkeys(("mqueue/engine/history.py", "shards/lake.py"), (BASE, PIPELINE)),  # late, where there is a lake
}
OURS = {"mqueue", "tenants", "shards", "daemons", "bench", "launch", "pipeline", "install"}
UNKNOWN_HERE = {"asyncpg", "awa", "duckdb", "pgmq", "pgqueuer", "procrastinate", "saq"}  # of the peers' environment


def folders() -> Iterator[tuple[Path, tuple[str, ...]]]:
    for room in ("mqueue", "tenants", "shards", "daemons", "bench", "launch", "pipeline"):
        for path in sorted((ROOT / room).rglob("*.py")):
            fits = [name for name in INSTALLED if path.is_relative_to(ROOT / name)]
            yield path, INSTALLED[max(fits, key=len)]


def imported(path: Path) -> set[str]:
    """The packages of all its imports, late ones too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


@cache
def packages() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def distributions(*files: str) -> set[str]:
    lines = [line for name in files for line in (ROOT / name).read_text().splitlines()]
    return {re.split(r"[\[= ;]", line)[0].lower().replace("_", "-") for line in lines if re.match(r"\w", line)}


def strangers(path: Path, files: tuple[str, ...]) -> set[str]:
    """Imports that nothing in these files brings."""
    brings = packages()
    there = distributions(*files)
    found = imported(path) - OURS - UNKNOWN_HERE - sys.stdlib_module_names
    return {name for name in found if not {one.lower().replace("_", "-") for one in brings.get(name, [name])} & there}


@pytest.mark.parametrize("files", sorted(set(INSTALLED.values())), ids=" ".join)
def test_every_import_is_installed_where_it_is_used(files: tuple[str, ...]) -> None:
    found = {str(path.relative_to(ROOT)): strangers(path, files) for path, own in folders() if own == files}
    assert {path: names for path, names in found.items() if names} == {}


def test_what_only_the_tests_install_is_a_stranger(tmp_path: Path) -> None:
    """Or the test above could not fail."""
    path = tmp_path / "one.py"
    path.write_text("import json\n\ndef late():\n    import httpx, psycopg\n    from mqueue.core import ids\n")
    assert strangers(path, (BASE,)) == {"httpx"}

"""The docs name what there is, and all of it."""

import re
import subprocess
from pathlib import Path

import pytest

from mqueue.api.control.urls import VIEWS
from mqueue.api.handlers import ROUTES
from mqueue.core import errors
from mqueue.core.conf import ROOT
from tests.unit.test_compose import variables_we_read
from tests.unit.test_problems import every_error

DOCS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
OPERATIONS = (ROOT / "docs/operations.md").read_text()


def test_operations_has_a_row_for_every_variable_and_no_other() -> None:
    rows = set(re.findall(r"^\| `([A-Z_]+)` \|", OPERATIONS, re.MULTILINE))
    assert rows == variables_we_read()


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    for name in re.findall(
        r"`((?:mqueue|shards|tenants|daemons|launch|tests|pipeline|docs)/[\w/.]+\.\w+)`", path.read_text()
    ):
        assert (ROOT / name).exists(), name


def test_make_targets_that_are_named_exist_and_have_help() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in DOCS:
        named = set(re.findall(r"`make (?:-s )?([a-z-]+)", path.read_text())) - {"install-dev"}
        assert named <= targets, path


def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    assert {"run", "test", "test-quick", "lint", "bench", "psql", "help"} <= set(re.findall(r"make ([a-z-]+)", shown))


def test_the_api_docs_name_every_code() -> None:
    text = (ROOT / "docs/api.md").read_text()
    unserved = {"internal"}  # our own fault
    assert {kind.code for kind in every_error()} - unserved <= set(re.findall(r"`(\w+)`", text))


def test_the_api_docs_name_every_path() -> None:
    text = (ROOT / "docs/api.md").read_text()
    for path, view in VIEWS.items():
        row = re.search(rf"^\| `{re.escape(path)}` \| ([A-Z, ]+) \|", text, re.MULTILINE)
        assert row, path
        assert set(row[1].split(", ")) == view.roles.keys()
    for path in ROUTES:
        assert path.split("{")[0].rstrip("/") in text, path


def test_every_decision_is_listed() -> None:
    listed = set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", (ROOT / "docs/decisions/README.md").read_text()))
    assert listed == {path.name for path in (ROOT / "docs/decisions").glob("0*.md")}


def test_every_statement_has_a_header_and_is_used() -> None:
    code = "".join(
        path.read_text() for room in ("mqueue", "shards", "daemons", "pipeline") for path in (ROOT / room).rglob("*.py")
    )
    for path in (ROOT / "shards/sql").glob("*.sql"):
        assert path.read_text().startswith("-- "), path.name
        per_log = f'"{path.stem.rsplit("_", 1)[0]}_{{'  # one file a log: measure_message.sql, measure_event.sql
        assert f'statement("{path.stem}")' in code or f'"{path.name}"' in code or per_log in code, path.name


def test_the_error_tree_has_no_orphans() -> None:
    assert all(kind.__module__ == errors.__name__ for kind in every_error())

"""The README's example, line by line, against a fresh installation."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqueue.core.conf import ROOT
from tests.service import Service

README = (ROOT / "README.md").read_text()


@pytest.fixture
def fresh(folder: Path) -> Iterator[Service]:
    """With embedded servers, as a newcomer has it."""
    service = Service(folder / "data")
    try:
        yield service.start()
    finally:
        service.end()


def examples() -> list[tuple[str, str]]:
    """Each command of a console block, with what it is said to print."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL):
        command, _, output = block.removeprefix("$ ").partition("\n")
        while command.count("'") % 2 or command.count('"') % 2:  # a quoted argument goes on in the next line
            line, _, output = output.partition("\n")
            command += "\n" + line
        found.append((command, output))
    return found


def masked(text: str) -> str:
    """Without what differs from run to run: ids, times, receipts, and the widths that follow from them."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r'"receipt":"[^"]+"', '"receipt":"R"', text)
    text = re.sub(r'"oldest_ready_age_ms":\d+', '"oldest_ready_age_ms":N', text)
    text = re.sub(r"\b\d{9,16}\b", "ID", text)
    return re.sub(r"-{3,}", "---", re.sub(r" +", " ", text)).strip()


def printed(service: Service, folder: Path) -> list[str]:
    """What each command prints, one after the other in one shell."""
    mark = "=" * 40
    lines = [f"export TOKEN={service.shown_token()}"]
    for command, _ in examples():
        here = command.replace("http://127.0.0.1:8080", service.url).replace("make -s", f"make -s -C {ROOT}")
        lines += [here, f"echo; echo {mark}"]
    script = "\n".join(lines)
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=service.env, capture_output=True, text=True)
    return done.stdout.split(f"{mark}\n")[:-1]


def test_the_readmes_examples_print_what_it_says(fresh: Service, tmp_path: Path) -> None:
    shown = examples()
    assert len(shown) >= 15
    for (command, expected), output in zip(shown, printed(fresh, tmp_path), strict=True):
        assert masked(output) == masked(expected), command

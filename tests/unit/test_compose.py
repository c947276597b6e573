"""docker-compose.yml cannot be run here, so it is held against its schema and against the code that it starts."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from mqueue.core.conf import ROOT, read

FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service.get("image") == "mqueue"}


class Recorder(Mapping[str, str]):
    """Notes which variables the configuration asks for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return {"JWT_SECRET": "s" * 40}[name]

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def variables_we_read() -> set[str]:
    recorder = Recorder()
    read(recorder)
    return recorder.asked


def test_it_is_valid_against_the_schema_of_compose() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_has_every_part_of_the_service() -> None:
    assert {"shard-0", "shard-1", "redis", "migrate", "api", "daemons", "celery", "metrics", "certs"} <= SERVICES.keys()


@pytest.mark.parametrize("name", OURS)
def test_our_services_get_only_variables_that_we_read(name: str) -> None:
    assert OURS[name]["environment"].keys() <= variables_we_read()


def filled_in(variable: "re.Match[str]") -> str:
    """Its default, or something long enough for a secret."""
    return variable[2] if variable[1] == "-" else "x" * 40


@pytest.mark.parametrize("name", OURS)
def test_our_services_are_configured_as_we_understand_it(name: str) -> None:
    given = {key: value for key, value in OURS[name]["environment"].items() if not key.startswith("TLS_")}
    filled = {key: re.sub(r"\$\{\w+(?::([-?])([^}]*))?\}", filled_in, str(value)) for key, value in given.items()}
    conf = read(filled)
    assert len(conf.shard_urls) == 2
    assert not conf.embedded.postgres
    assert not conf.embedded.redis


def test_services_wait_for_services_that_exist_and_can_say_that_they_are_ready() -> None:
    for name, service in SERVICES.items():
        for other, wanted in service.get("depends_on", {}).items():
            assert other in SERVICES, f"{name} waits for {other}"
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other]
            if wanted["condition"] == "service_completed_successfully":
                assert SERVICES[other]["restart"] in ("no", "on-failure:5")


def test_named_volumes_are_declared() -> None:
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert used == COMPOSE["volumes"].keys()


def test_no_secret_is_written_down() -> None:
    for line in FILE.read_text().splitlines():
        for name in ("PASSWORD", "SECRET"):
            assert not re.search(rf"{name}: (?!\$\{{)", line), line


def test_every_secret_comes_from_the_file_that_make_env_writes() -> None:
    text = (ROOT / "docker/env.py").read_text()
    wanted = set(re.findall(r"\$\{(\w+):\?", FILE.read_text()))
    assert wanted == {"JWT_SECRET", "POSTGRES_PASSWORD", "REDIS_PASSWORD"}
    assert all(f"\n{name}=" in text for name in wanted)


@pytest.mark.parametrize("name", ["api", "daemons", "celery", "metrics"])
def test_commands_are_ours(name: str) -> None:
    assert OURS[name]["command"] == ["python", "-m", "launch", "only", name]


def test_the_image_gets_every_file_that_it_copies() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set(re.findall(r"^COPY (\S+) ", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE))
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)

"""A pytest plugin: one PostgreSQL and one Valkey for the whole run, and databases of its own for every test worker.

Loaded by `-p tests.servers`, before Django's settings are. The process that starts the run starts the servers in a
temporary folder, migrates one set of databases and makes a template of it; each worker works on clones. Nothing that
somebody else started is needed or touched: variables that would lead there are taken out of the environment.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg import sql

from launch import embedded, services
from mqueue.core import conf as configuration
from mqueue.core.conf import ROOT, Conf
from mqueue.core.linux import leash

SHARDS = 2
FOREIGN = (
    "DATABASE_URLS",
    "CONTROL_DATABASE_URL",
    "REDIS_URL",
    "REDIS_SENTINELS",
    "JWT_SECRET",
    "MQUEUE_PORT",
    "METRICS_PORT",
    "METRICS_HOST",
    "METRICS_DIR",
    "WAL_DIR",
    "PROMETHEUS_MULTIPROC_DIR",
    "MAKELEVEL",
)
HANDED_DOWN = "MQUEUE_TEST_SERVERS"


class Servers:
    """The running servers, as any process of the run can use them."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.conf = configuration.read({"MQUEUE_DATA": str(data), "MQUEUE_SHARDS": str(SHARDS), "JWT_SECRET": "unused"})

    def url(self, database: str) -> str:
        return self.conf.control_url.replace("/mqueue_control?", f"/{database}?")

    def redis_url(self, number: int) -> str:
        return self.conf.redis.url.replace("db=0", f"db={number}")

    def execute(self, *statements: sql.Composed) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def environment(self, prefix: str, redis_number: int) -> dict[str, str]:
        """For a process that shall work on the databases that begin with `prefix`."""
        return {
            "DATABASE_URLS": ",".join(self.url(f"{prefix}_shard_{n}") for n in range(SHARDS)),
            "CONTROL_DATABASE_URL": self.url(f"{prefix}_control"),
            "REDIS_URL": self.redis_url(redis_number),
        }

    def clone(self, prefix: str) -> None:
        """A fresh set of migrated databases, in a tenth of a second."""
        for name in database_names(prefix):
            template = sql.Identifier(name.replace(prefix, "template", 1))
            self.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), template))

    def drop(self, prefix: str) -> None:
        for name in database_names(prefix):
            self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def database_names(prefix: str) -> list[str]:
    return [f"{prefix}_control", *(f"{prefix}_shard_{n}" for n in range(SHARDS))]


def worker_number() -> int:
    """0 where tests run in the first process itself, 1 and up in xdist's workers."""
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    return int(name.removeprefix("gw")) + 1 if name else 0


_children: list["subprocess.Popen[bytes]"] = []


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Iterator[None]:
    if HANDED_DOWN not in os.environ:
        for name in FOREIGN:
            os.environ.pop(name, None)
        os.environ[HANDED_DOWN] = json.dumps(str(_start()))
    servers = running()
    prefix = f"w{worker_number()}"
    servers.clone(prefix)
    os.environ.update(servers.environment(prefix, worker_number()))
    os.environ["MQUEUE_DATA"] = str(servers.data / prefix)
    os.environ["JWT_SECRET"] = configuration.kept_secret(servers.data)
    configuration.conf.cache_clear()
    return (yield)


def running() -> Servers:
    return Servers(Path(json.loads(os.environ[HANDED_DOWN])))


def pytest_unconfigure() -> None:
    if not _children:
        return
    for child in reversed(_children):
        child.terminate()
    for child in _children:
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
    servers = running()
    for folder in {servers.data, servers.conf.embedded.state, servers.conf.embedded.sockets}:
        shutil.rmtree(folder, ignore_errors=True)


def _start() -> Path:
    data = Path(tempfile.mkdtemp(prefix="mqueue-test-"))
    data.chmod(0o711)
    account = embedded.server_account()
    embedded.place(Servers(data).conf.embedded, data, account)
    servers = Servers(data)  # again: what place() decided is read from its note
    embedded.make_postgres(servers.conf.embedded, account)
    commands = (embedded.postgres_command, embedded.valkey_command)
    _children.extend(
        _spawn(command(servers.conf.embedded, account), data / "servers.log", account) for command in commands
    )
    _wait_for(servers)
    environment = dict(os.environ) | servers.environment("template", 0) | {"MQUEUE_DATA": str(data)}
    migrated = subprocess.run(services.migrate_command(), env=environment, cwd=ROOT, capture_output=True, text=True)
    if migrated.returncode:
        pytest.exit(f"the test databases cannot be migrated:\n{migrated.stdout}{migrated.stderr}", returncode=3)
    return data


def _spawn(command: list[str], log: Path, account: embedded.Account | None) -> "subprocess.Popen[bytes]":
    who = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: leash(15),  # noqa: PLW1509  pytest has no other thread yet
            cwd="/",
            **who,  # type: ignore[call-overload]
        )


def _wait_for(servers: Servers) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(servers.url("postgres")).close()
            redis.Redis.from_url(servers.redis_url(0)).ping()
        except (psycopg.OperationalError, redis.RedisError):
            if time.monotonic() > deadline:
                pytest.exit(f"the test servers do not start; see {servers.data / 'servers.log'}", returncode=3)
            time.sleep(0.05)
        else:
            return


def conf_of(prefix: str, redis_number: int, **more: str) -> Conf:
    """The configuration of a process on another set of databases."""
    return configuration.read(running().environment(prefix, redis_number) | {"JWT_SECRET": "x" * 40} | more)

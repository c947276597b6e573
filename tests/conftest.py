"""Fixtures that every kind of test shares. The servers themselves come from the plugin tests/servers.py."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest

from mqueue.core.conf import Conf, conf
from mqueue.engine.engine import Engine
from shards.cluster import Cluster
from tests.overdue import end_overdue
from tests.servers import running, worker_number

hypothesis.settings.register_profile("mqueue", deadline=None)  # a busy machine says nothing about an example
hypothesis.settings.load_profile("mqueue")


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    """The databases are there, migrated: see tests/servers.py."""


@pytest.fixture(scope="session")
def configuration() -> Conf:
    return conf()


@pytest.fixture
async def engine(configuration: Conf) -> AsyncIterator[Engine]:
    """On this worker's databases; a test keeps out of the others' way by a namespace of its own."""
    engine = Engine(configuration)
    await engine.open()
    yield engine
    await engine.close()


@pytest.fixture
def cluster(engine: Engine) -> Cluster:
    return engine.cluster


@pytest.fixture
def folder() -> Iterator[Path]:
    """Reachable by every account, unlike pytest's own temporary folders."""
    path = Path(tempfile.mkdtemp(prefix="mqueue-run-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """One that no other test uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.lower()).strip("-")[:50]
    return f"t-{name}-{os.urandom(3).hex()}"


@pytest.fixture
def fresh_databases(request: pytest.FixtureRequest) -> Iterator[str]:
    """A set of migrated databases for this test alone; the prefix of their names."""
    prefix = f"w{worker_number()}_{os.urandom(3).hex()}"
    servers = running()
    servers.clone(prefix)
    yield prefix
    servers.drop(prefix)


@pytest.fixture
def shard_0(configuration: Conf) -> "Iterator[psycopg.Connection[tuple[object, ...]]]":
    with psycopg.connect(configuration.shard_urls[0], autocommit=True) as connection:
        yield connection


@pytest.fixture
def lapse_now(engine: Engine) -> Callable[[int], Awaitable[None]]:
    """Let a lease's deadline pass now, and have the lease daemon look."""

    async def lapse(message_id: int) -> None:
        shard = engine.cluster.shard_of_id(message_id)
        async with shard.connection() as connection:
            await connection.execute("UPDATE delivery SET until = now() WHERE id = %s AND state > 0", [message_id])
        await end_overdue(engine, shard)

    return lapse

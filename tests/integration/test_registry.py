"""Numbers of topics: given once, and kept through deletion."""

from typing import Any

import psycopg
import pytest

from mqueue.core.conf import Conf
from shards.cluster import Cluster
from tenants.registry import find_topics, make_topics


async def made(cluster: Cluster, *names: tuple[str, str], with_namespaces: bool = True) -> dict[tuple[str, str], int]:
    async with cluster.control.connection() as connection:
        return await make_topics(connection, names, with_namespaces=with_namespaces)


async def found(cluster: Cluster, *names: tuple[str, str]) -> dict[tuple[str, str], int]:
    async with cluster.control.connection() as connection:
        return await find_topics(connection, names)


@pytest.fixture
def execute(configuration: Conf) -> Any:
    def run(statement: str, *parameters: Any) -> Any:
        with psycopg.connect(configuration.control_url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)  # type: ignore[arg-type]
            return cursor.fetchone() if cursor.description else None

    return run


async def test_a_topic_that_was_deleted_comes_back_with_its_number(
    cluster: Cluster, namespace: str, execute: Any
) -> None:
    name = (namespace, "t")
    number = (await made(cluster, name))[name]
    execute("INSERT INTO topic_settings (topic_id, paused, deleted_at) VALUES (%s, false, now())", number)
    assert await found(cluster, name) == {name: number}  # its messages can be had
    assert await made(cluster, name) == {name: number}
    assert execute("SELECT deleted_at FROM topic_settings WHERE topic_id = %s", number) == (None,)


async def test_a_namespace_that_was_deleted_comes_back_only_where_namespaces_are_made(
    cluster: Cluster, namespace: str, execute: Any
) -> None:
    name = (namespace, "t")
    number = (await made(cluster, name))[name]
    execute("UPDATE namespace SET deleted_at = now() WHERE name = %s", namespace)
    assert await made(cluster, name, (namespace, "new"), with_namespaces=False) == {}
    assert await found(cluster, (namespace, "new")) == {}
    assert await made(cluster, name) == {name: number}
    assert execute("SELECT deleted_at FROM namespace WHERE name = %s", namespace) == (None,)


async def test_making_what_is_there_changes_no_version(cluster: Cluster, namespace: str, execute: Any) -> None:
    await made(cluster, (namespace, "t"))
    before = execute("SELECT version FROM settings_version")
    await made(cluster, (namespace, "t"), (namespace, "u"))
    assert execute("SELECT version FROM settings_version") == before

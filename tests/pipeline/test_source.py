"""The log as a table of Spark's: lake and shards together, each row once, and no more of it than is asked for."""

import asyncio
import datetime
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from mqueue.core.conf import Conf
from mqueue.engine.engine import Engine
from pipeline.archive import archive
from pipeline.source import PUSHDOWN, register
from pipeline.spark import Sessions
from tests.integration.messages import message, send
from tests.pipeline.past import grow_older, rows_of, settle_some, wait_until_complete

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
]
DAYS = 12


@pytest.fixture
def spark(sessions: Sessions) -> SparkSession:
    spark = sessions.get()
    register(spark)
    return spark


@pytest.fixture
def past(lake: Conf, namespace: str, sessions: Sessions, said: list[str]) -> str:
    """The first half of a namespace's messages lies in the lake, the other half in the live log."""
    asyncio.run(settle_some(lake, namespace))
    grow_older(lake, namespace, DAYS)
    archive(lake, sessions, said.append)
    asyncio.run(settle_some(lake, namespace))
    wait_until_complete(lake)
    return namespace


def log(spark: SparkSession, lake: Conf, namespace: str, schema: str = "", **options: Any) -> DataFrame:
    reader = spark.read.format("mqueue").option("namespace", namespace).option("lake", lake.lake.url)
    return (reader.schema(schema) if schema else reader).options(**options).load()


@pytest.mark.parametrize("parent", ["message", "event"])
def test_lake_and_live_log_are_one_table(lake: Conf, past: str, spark: SparkSession, parent: str) -> None:
    expected = rows_of(lake, parent, past)
    table = log(spark, lake, past, log=parent)
    assert table.count() == len(expected) > 0
    found = {(row.id, row.txid, row.topic) for row in table.select("id", "txid", "topic").collect()}
    assert found == {(row["id"], row["txid"], row["name"]) for row in expected}


def test_a_row_is_read_as_it_was_written(lake: Conf, past: str, spark: SparkSession) -> None:
    expected = {row["id"]: row for row in rows_of(lake, "message", past)}
    found = log(spark, lake, past).collect()
    assert {row.id for row in found} == expected.keys()
    for row in found:
        was = expected[row.id]
        assert bytes(row.payload) == bytes(was["payload"])
        assert row.body == (bytes(was["payload"]).decode() if was["is_json"] else None)
        for name in ("txid", "priority", "ttl_ms", "max_retries", "traceparent", "producer", "idempotency_key", "day"):
            assert row[name] == was[name], name
        assert row.namespace == past
        assert 0 <= row.shard < len(lake.shard_urls)


def test_events_have_their_names(lake: Conf, past: str, spark: SparkSession) -> None:
    counts = {row.event: row["count"] for row in log(spark, lake, past, log="event").groupBy("event").count().collect()}
    assert counts == {"delivered": 80, "acked": 80}


def test_a_schema_chooses_columns_and_their_order(lake: Conf, past: str, spark: SparkSession) -> None:
    table = log(spark, lake, past, "body string, id long not null", topic="keyed")
    assert table.columns == ["body", "id"]
    assert sorted(row.body for row in table.collect()) == [str(n) for n in range(5)]
    with pytest.raises(Exception, match="no column 'bodies'"):
        log(spark, lake, past, "bodies string").collect()
    with pytest.raises(Exception, match="The column id is long"):
        log(spark, lake, past, "id string").collect()


def test_times_choose_rows_on_both_sides(lake: Conf, past: str, spark: SparkSession) -> None:
    between = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=DAYS // 2)
    ages = [row["enqueued_at"] >= between for row in rows_of(lake, "message", past)]
    assert log(spark, lake, past, startingTimestamp=between.isoformat()).count() == sum(ages) > 0
    milliseconds = int(between.timestamp() * 1000)
    assert log(spark, lake, past, endingTimestamp=milliseconds).count() == ages.count(False) > 0
    assert log(spark, lake, past, startingTimestamp=between.isoformat(), endingTimestamp=milliseconds).count() == 0


def test_partitions_have_as_many_rows_as_they_may_and_none_is_lost(lake: Conf, past: str, spark: SparkSession) -> None:
    table = log(spark, lake, past, rowsPerPartition=7, topic="t0,t1,keyed")
    assert {row.topic for row in table.collect()} == {"t0", "t1", "keyed"}
    sizes = table.where("enqueued_at > now() - interval 1 day").selectExpr("spark_partition_id() AS p").groupBy("p")
    assert max(row["count"] for row in sizes.count().collect()) <= 7
    assert table.count() == 2 * (8 + 8) + 5


async def test_offsets_bound_a_read_and_what_commits_late_is_in_the_next(
    lake: Conf, namespace: str, engine: Engine, spark: SparkSession
) -> None:
    """A transaction that began before others committed: whoever reads by id or time up to them never sees its row."""
    (first,) = await send(engine, message(namespace, "t", 1))
    wait_until_complete(lake)
    shard = engine.cluster.shard_of_id(first).number
    with psycopg.connect(lake.shard_urls[shard]) as late:
        late.execute("INSERT INTO tally_delta SELECT topic, 0, 0, 0, 0 FROM message WHERE id = %s", [first])
        late.execute(
            "INSERT INTO message (id, topic, day, payload_bytes, priority, is_json, payload) "
            "SELECT id + 1024 * 1024, topic, day, 1, 5, true, '2' FROM message WHERE id = %s",
            [first],
        )
        await send(engine, message(namespace, "t", 3))
        row = late.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint").fetchone()
        assert row
        below = f'{{"{shard}": {row[0]}}}'
        assert [row.body for row in log(spark, lake, namespace, "body string").collect()] == ["1"]
        late.commit()
    wait_until_complete(lake)
    rest = log(spark, lake, namespace, "body string", startingOffsets=below)
    assert sorted(row.body for row in rest.collect()) == ["2", "3"]
    assert [row.body for row in log(spark, lake, namespace, "body string", endingOffsets=below).collect()] == ["1"]


def test_filters_are_pushed_down_where_that_is_on_and_change_nothing(
    lake: Conf, past: str, spark: SparkSession
) -> None:
    slot = rows_of(lake, "message", past)[0]["id"] % 1024

    def answers() -> list[Any]:
        """Each by a frame of its own: Spark keeps the filters of one query for the next of the same frame."""
        conditions = [
            "topic = 't1' AND priority > 10", "topic IN ('t1', 'odd') AND priority = 5", f"id % 1024 = {slot}",
            "ttl_ms IS NULL", "enqueued_at < now() - interval 3 days AND priority <= 5",
            "NOT priority = 5", "topic = 'nobody'", "max_retries = 0 OR priority = 3",
            f"namespace = '{past}' AND priority IN (1, 2, 39)",
        ]  # fmt: skip
        return [
            sorted(row.id for row in log(spark, lake, past).where(one).select("id").collect()) for one in conditions
        ]

    without = answers()
    assert [bool(found) for found in without] == [True] * 6 + [False] + [True] * 2
    spark.conf.set(PUSHDOWN, "true")
    try:
        register(spark)
        assert answers() == without
    finally:
        spark.conf.unset(PUSHDOWN)
        register(spark)


def test_an_option_that_is_not_known_is_named(lake: Conf, namespace: str, spark: SparkSession) -> None:
    with pytest.raises(Exception, match="startingtimestamps"):
        log(spark, lake, namespace, startingTimestamps="1").count()
    with pytest.raises(Exception, match="maxrowspertrigger"):
        log(spark, lake, namespace, maxRowsPerTrigger="few").count()

"""The log as a stream of Spark's: each row comes once, over several batches, however days move meanwhile."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.types import StructType

from mqueue.core.conf import Conf
from mqueue.engine.engine import Engine
from pipeline.archive import archive
from pipeline.retain import retain
from pipeline.source import register
from pipeline.source.options import read_options
from pipeline.source.streaming import Offset, StreamReader
from pipeline.spark import Sessions, began_too_slowly
from tests.integration.messages import message
from tests.integration.messages import send as send_by
from tests.pipeline.past import forget_deliveries, grow_older, wait_until_complete

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


def send(lake: Conf, namespace: str, bodies: range, at_once: int = 7, wait: bool = True) -> None:
    async def all_of_them() -> None:
        engine = Engine(lake)
        await engine.open()
        try:
            for start in range(bodies.start, bodies.stop, at_once):
                some = range(start, min(start + at_once, bodies.stop))
                await send_by(engine, *(message(namespace, "t", n) for n in some))
        finally:
            await engine.close()

    asyncio.run(all_of_them())
    if wait:
        wait_until_complete(lake)


def until_it_has_begun(sink: DataStreamWriter) -> None:
    for left in reversed(range(10)):
        try:
            sink.start().awaitTermination()
            return
        except StreamingQueryException as error:
            if not left or not began_too_slowly(error):
                raise


class Stream:
    """What is there at each run, into memory, by batches."""

    def __init__(self, spark: SparkSession, lake: Conf, namespace: str, folder: Path, **options: Any) -> None:
        self._spark, self._folder = spark, folder
        given = {"namespace": namespace, "topic": "t", "lake": lake.lake.url, "startingOffsets": "earliest"} | options
        self._options = {name: str(value) for name, value in given.items()}
        self.batches: list[list[int]] = []

    def run(self) -> None:
        def keep(batch: DataFrame, number: int) -> None:
            self.batches.append([int(row.body) for row in batch.collect()])

        leads = self._spark.readStream.format("mqueue").schema("id long, body string").options(**self._options).load()
        sink = leads.writeStream.foreachBatch(keep).option("checkpointLocation", str(self._folder / "checkpoint"))
        until_it_has_begun(sink.trigger(availableNow=True))

    def bodies(self) -> Counter[int]:
        return Counter(body for batch in self.batches for body in batch)


def once(bodies: range) -> Counter[int]:
    return Counter(bodies)


def test_what_is_available_comes_in_several_batches_each_row_once(
    lake: Conf, namespace: str, spark: SparkSession, tmp_path: Path
) -> None:
    send(lake, namespace, range(60))
    stream = Stream(spark, lake, namespace, tmp_path, maxRowsPerTrigger=20, rowsPerPartition=8)
    stream.run()
    assert stream.bodies() == once(range(60))
    assert len(stream.batches) >= 3
    assert all(0 < len(batch) <= 20 for batch in stream.batches)
    before = len(stream.batches)
    stream.run()
    assert len(stream.batches) == before
    send(lake, namespace, range(60, 70))
    stream.run()
    assert stream.bodies() == once(range(70))


class Batches:
    """What Spark asks a stream for, batch by batch, without Spark: each a list of bodies."""

    def __init__(self, lake: Conf, namespace: str, **options: Any) -> None:
        given = {"namespace": namespace, "topic": "t", "lake": lake.lake.url, "startingOffsets": "earliest"} | options
        self._asked = read_options({name: str(value) for name, value in given.items()})
        self._schema = StructType().add("body", "string").add("id", "long")
        self.offset = self.new().initialOffset()
        self.past: list[tuple[Offset, Offset]] = []

    def new(self) -> StreamReader:
        """As after a restart: nothing is known but offsets."""
        return StreamReader(self._asked, self._schema)

    def next(self, reader: StreamReader) -> list[int]:
        end = json.loads(json.dumps(reader.latestOffset(self.offset, reader.getDefaultReadLimit())))
        if end == self.offset:
            return []
        self.past.append((self.offset, end))
        self.offset = end
        return [body for part in self.parts(len(self.past) - 1) for body in part]

    def parts(self, number: int) -> list[list[int]]:
        """A batch that was, again."""
        reader = self.new()
        found = [list(reader.read(part)) for part in reader.partitions(*self.past[number])]
        return [[int(body) for batch in part for body in batch.column("body").to_pylist()] for part in found]

    def rest(self, reader: StreamReader) -> list[list[int]]:
        return list(iter(lambda: self.next(reader), []))


def test_a_transaction_larger_than_a_batch_comes_as_a_whole(lake: Conf, namespace: str) -> None:
    send(lake, namespace, range(30), at_once=30)
    batches = Batches(lake, namespace, maxRowsPerTrigger=4)
    assert [sorted(batch) for batch in batches.rest(batches.new())] == [list(range(30))]


def test_available_now_ends_though_more_keeps_coming(lake: Conf, namespace: str) -> None:
    send(lake, namespace, range(20), at_once=5)
    batches = Batches(lake, namespace, maxRowsPerTrigger=8)
    reader = batches.new()
    reader.prepareForTriggerAvailableNow()
    found = batches.next(reader)
    send(lake, namespace, range(20, 40), at_once=5)
    found += [body for batch in batches.rest(reader) for body in batch]
    assert sorted(found) == list(range(20))
    assert sorted(body for batch in batches.rest(batches.new()) for body in batch) == list(range(20, 40))


def test_a_transaction_that_commits_late_is_not_passed_over(lake: Conf, namespace: str) -> None:
    send(lake, namespace, range(1))
    batches = Batches(lake, namespace)
    reader = batches.new()
    assert batches.next(reader) == [0]
    shard = next(url for url in lake.shard_urls if rows_on(url, namespace))
    with psycopg.connect(shard) as late:
        late.execute(
            "INSERT INTO message (id, topic, day, payload_bytes, priority, is_json, payload) "
            "SELECT id + 1024 * 1024, topic, day, 1, 5, true, '1' FROM message WHERE topic IN "
            "(SELECT id FROM topic WHERE namespace = %s)",
            [namespace],
        )
        send(lake, namespace, range(2, 4), wait=False)
        assert batches.next(reader) == []
        late.commit()
    wait_until_complete(lake)
    assert sorted(batches.next(reader)) == [1, 2, 3]
    assert batches.next(reader) == []


def test_days_that_go_into_the_lake_between_batches_are_neither_lost_nor_repeated(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    """First all is live; then the day is in the lake and on its shard; then it has left the shard. A batch that is done
    again has the same parts with the same rows."""
    send(lake, namespace, range(40), at_once=3)
    grow_older(lake, namespace, DAYS)
    batches = Batches(lake, namespace, maxRowsPerTrigger=10, rowsPerPartition=4)
    reader = batches.new()
    found = [batches.next(reader)]
    live = batches.parts(0)
    assert len(live) > 1
    archive(lake, sessions, said.append)
    assert batches.parts(0) == live
    found.append(batches.next(reader))
    forget_deliveries(lake, namespace)
    retain(lake, said.append)
    assert any(line.startswith("dropped") for line in said)
    assert batches.parts(0) == live
    found += batches.rest(reader)
    assert len(found) >= 4
    assert Counter(body for batch in found for body in batch) == once(range(40))
    assert all(len(batch) <= 10 for batch in found)


def rows_on(url: str, namespace: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM topic WHERE namespace = %s", [namespace]).fetchone()
    return int(row[0]) if row else 0

"""Frames and streams are written into topics through the service, and what is done again adds nothing twice."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mqueue.core.conf import Conf
from pipeline.archive import archive
from pipeline.source import register
from pipeline.source.outgoing import Outgoing, write_options
from pipeline.source.writing import send as send_rows
from pipeline.spark import Sessions
from tests.pipeline.past import grow_older, rows_of
from tests.pipeline.test_source_stream import send, until_it_has_begun
from tests.service import Service

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
]
DAYS = 9


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """On the worker's own databases, with the secret that Spark's workers find in their environment."""
    folder = tmp_path_factory.mktemp("served") / "data"
    folder.mkdir()
    names = ("DATABASE_URLS", "CONTROL_DATABASE_URL", "REDIS_URL", "JWT_SECRET")
    env = {name: os.environ[name] for name in names}
    service = Service(folder, env, [sys.executable, "-m", "launch", "only", "api"]).start(wait=False)
    service.until(service.is_ready, 120, "the API answers")
    yield service
    service.end()


@pytest.fixture
def spark(sessions: Sessions) -> SparkSession:
    spark = sessions.get()
    register(spark)
    return spark


def bodies(lake: Conf, namespace: str, topic: str) -> Counter[Any]:
    """Every message that was ever added."""
    found = [row for row in rows_of(lake, "message", namespace) if row["name"] == topic]
    return Counter(json.loads(bytes(row["payload"])) for row in found)


def test_a_frame_becomes_messages_and_a_run_of_the_same_name_adds_nothing(
    lake: Conf, namespace: str, served: Service, spark: SparkSession
) -> None:
    frame = spark.range(2500).selectExpr("CAST(id AS string) AS body", "CAST(id % 7 AS int) AS priority", "id")

    def write(**options: str) -> None:
        given = {"namespace": namespace, "topic": "out", "url": served.url, "keyColumn": "id"} | options
        frame.write.format("mqueue").mode("append").options(**given).save()

    write(name="first")
    assert bodies(lake, namespace, "out") == Counter(range(2500))
    write(name="first")
    assert bodies(lake, namespace, "out") == Counter(range(2500))
    write()
    assert set(bodies(lake, namespace, "out").values()) == {2}
    rows = rows_of(lake, "message", namespace)
    assert {(int(bytes(row["payload"])) % 7) == row["priority"] for row in rows} == {True}


def test_a_task_that_runs_twice_adds_nothing_twice(lake: Conf, namespace: str, served: Service) -> None:
    """The second time its rows come in another order, and in other batches."""
    rows = [{"body": str(n % 900), "priority": n % 3} for n in range(1800)]
    sink = write_options({"namespace": namespace, "topic": "out", "url": served.url}, ["body", "priority"])

    def sent(rows: list[dict[str, Any]], task: int = 0, at_once: int = 1800) -> tuple[int, int]:
        batches = [pa.RecordBatch.from_pylist(rows[n : n + at_once]) for n in range(0, len(rows), at_once)]
        found = send_rows(iter(batches), Outgoing(sink, "spark:query:7", task))
        return found.rows, found.duplicates

    expected = Counter(dict.fromkeys(range(900), 2))
    assert sent(rows) == (1800, 0)
    assert sent(rows[::-1], at_once=77) == (1800, 1800)
    assert bodies(lake, namespace, "out") == expected
    assert sent(rows, task=1) == (1800, 0)


def test_a_write_that_is_refused_fails_and_says_why(
    lake: Conf, namespace: str, served: Service, spark: SparkSession
) -> None:
    frame = spark.createDataFrame([("1", 5), ("{", 5)], "body string, priority int")
    writer = frame.coalesce(1).write.format("mqueue").option("url", served.url)
    with pytest.raises(Exception, match="needs the option namespace"):
        writer.mode("append").option("topic", "out").save()
    with pytest.raises(Exception, match="The service answers 400"):
        writer.mode("append").options(namespace=namespace, topic="out").save()
    with pytest.raises(Exception, match="nothing overwrites it"):
        writer.mode("overwrite").options(namespace=namespace, topic="out").save()
    assert not bodies(lake, namespace, "out")


class Copy:
    """From one topic into another, and nothing between: keys are the rows' own."""

    def __init__(self, spark: SparkSession, lake: Conf, namespace: str, served: Service, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._read = {"namespace": namespace, "topic": "t", "lake": lake.lake.url, "startingOffsets": "earliest"}
        self._write = {"namespace": namespace, "topic": "out", "url": served.url}

    def run(self) -> None:
        rows = self._spark.readStream.format("mqueue").schema("body string, priority short")
        frame = rows.options(**self._read, maxRowsPerTrigger="20", rowsPerPartition="8").load()
        sink = frame.writeStream.format("mqueue").options(**self._write).trigger(availableNow=True)
        until_it_has_begun(sink.option("checkpointLocation", str(self._folder / "checkpoint")))

    def batches(self) -> list[int]:
        return sorted(int(path.name) for path in (self._folder / "checkpoint/commits").iterdir() if path.name.isdigit())

    def forget_last(self) -> None:
        """As one leaves it who is killed when all of a batch was sent, before Spark has noted that."""
        last = self.batches()[-1]
        for path in (self._folder / "checkpoint/commits").glob(f"*{last}*"):
            path.unlink()


def test_a_batch_that_is_done_again_adds_nothing_though_its_rows_lie_elsewhere(
    lake: Conf,
    namespace: str,
    served: Service,
    spark: SparkSession,
    sessions: Sessions,
    said: list[str],
    tmp_path: Path,
) -> None:
    """Bodies repeat, so nothing but the row's own place in its batch tells equal messages apart."""
    for _ in range(2):
        send(lake, namespace, range(25))
    expected = Counter(dict.fromkeys(range(25), 2))
    copy = Copy(spark, lake, namespace, served, tmp_path)
    copy.run()
    assert bodies(lake, namespace, "out") == expected
    assert len(copy.batches()) >= 3
    copy.forget_last()
    copy.run()
    assert bodies(lake, namespace, "out") == expected
    grow_older(lake, namespace, DAYS)
    archive(lake, sessions, said.append)
    copy.forget_last()
    copy.run()
    assert bodies(lake, namespace, "out") == expected

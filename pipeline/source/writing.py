"""df.write.format("mqueue") and df.writeStream.format("mqueue"): into a topic, through the service's own door.

A message is there when the service has answered, and a task that runs twice adds nothing twice. So there is nothing to
commit in the end, and nothing to undo: abort() deletes no message.
"""

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from mqueue.core.conf import conf
from pipeline.door import Door
from pipeline.errors import PipelineError
from pipeline.source.outgoing import Outgoing, Sink

BATCH, BATCH_BYTES = 1_000, 4 << 20
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # Spark's own names


@dataclass
class Sent(WriterCommitMessage):
    rows: int
    duplicates: int


class Writer(DataSourceArrowWriter):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._name = sink.name or uuid.uuid4().hex  # once for all tasks, and for those that run again

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        return send(iterator, Outgoing(self._sink, f"spark:{self._name}", _task().partitionId()))


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        task = _task()
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise PipelineError("Spark does not say which batch of which query this is")
        return send(iterator, Outgoing(self._sink, f"spark:{self._sink.name or query}:{batch}", task.partitionId()))


def send(batches: Iterator[pa.RecordBatch], outgoing: Outgoing) -> Sent:
    sink, configuration = outgoing.sink, conf()
    url = sink.url or configuration.api.origin
    rows = duplicates = 0
    with closing(Door(url, configuration.jwt_secret, sink.namespace, "spark")) as door:
        for some in grouped(message for batch in batches for message in outgoing.messages(batch)):
            duplicates += door.enqueue(some)
            rows += len(some)
    return Sent(rows, duplicates)


def grouped(messages: Iterator[bytes]) -> Iterator[list[bytes]]:
    """As many as a request may carry well."""
    group: list[bytes] = []
    size = 0
    for message in messages:
        if group and (len(group) >= BATCH or size + len(message) > BATCH_BYTES):
            yield group
            group, size = [], 0
        group.append(message)
        size += len(message)
    if group:
        yield group


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None
    return task

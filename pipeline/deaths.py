"""What died, and of which error, in Spark tasks: the step before a death has told it."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.chunks import CHUNKS_OF, Batches, Names
from pipeline.meeting import UNKNOWN, Job, of_same_try, once, rows_of

NACKED, LAPSED, DEAD = 4, 5, 9  # kinds of events
DAY_US = 86_400_000_000
DEATHS = pa.schema([("topic_id", pa.int32()), ("id", pa.int64()), ("at_us", pa.int64()), ("reason", pa.string()),
                    ("error", pa.string())])  # fmt: skip
DEATHS_DDL = "topic_id int, id long, at_us long, reason string, error string"


def deaths(jobs: list[Job], url: str, names: Names, days: frozenset[int]) -> Batches:
    """For mapInArrow over the jobs' numbers: those of these days."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                columns = ["at", "epoch", "kind", "detail"]
                table = once(rows_of(jobs[number], "event", url, names, columns, of_failures))
                yield from died(table, days).to_batches(max_chunksize=CHUNKS_OF)

    return work


def of_failures(events: pa.Table) -> pa.Table:
    return events.filter(pc.is_in(events["kind"], pa.array([NACKED, LAPSED, DEAD], pa.int16())))


def died(events: pa.Table, days: frozenset[int]) -> pa.Table:
    events = events.combine_chunks()
    kind, at = events["kind"].to_numpy(), events["at"].cast(pa.int64()).to_numpy()
    dead = np.flatnonzero((kind == DEAD) & np.isin(at // DAY_US, list(days)))
    told = of_same_try(events["id"].to_numpy(), events["epoch"].cast(pa.int64()).to_numpy(),
                       np.flatnonzero(kind != DEAD), dead)  # fmt: skip
    errors = events["detail"].take(pa.array(told, pa.int64(), mask=told == UNKNOWN))
    found = events.take(dead)
    columns = [found["topic_id"], found["id"], found["at"].cast(pa.int64()), found["detail"], pc.fill_null(errors, "")]
    return pa.Table.from_arrays(columns, schema=DEATHS)

"""What each topic did in each hour, worked out in Spark tasks.

Where the rows of a message meet, its steps are timed; what was found goes on by topic and hour, to whoever then knows
all of an hour and with that its percentiles.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.blocks import Numbers, blocks, joined
from pipeline.chunks import Batches, Names
from pipeline.meeting import UNKNOWN, Job, is_first, looked_up, of_same_try, once, rows_of

DELIVERED, AGAIN, MOVED, ACKED, DEAD, REPLAYED = 2, 3, 7, 8, 9, 10  # kinds of events
SHARES = (0.5, 0.95, 0.99)
COUNTS = ("messages", "bytes", "deliveries", "retries", "acked", "dead")
TIMES = ("wait_ms", "work_ms", "total_ms")
HOUR_US, HOURS_A_DAY, HIGHEST_HOUR = 3_600_000_000, 24, 0xFFFFFFFF

PARTIAL = pa.schema([
    ("topic", pa.int64()), ("hour", pa.int64()), *((name, pa.int64()) for name in COUNTS),
    *((name, pa.list_(pa.int64())) for name in TIMES),
])  # fmt: skip
HOURS = pa.schema([
    ("hour", pa.int64()), ("topic_id", pa.int32()), *((name, pa.int64()) for name in COUNTS),
    *((name, pa.list_(pa.float64())) for name in TIMES),
])  # fmt: skip
HOURS_DDL = ", ".join(["hour long, topic_id int", *(f"{name} long" for name in COUNTS),
                       *(f"{name} array<double>" for name in TIMES)])  # fmt: skip

Columns = dict[str, Numbers]


def by_hour(jobs: list[Job], url: str, names: Names, days: frozenset[int], parts: int) -> Batches:
    """For mapInArrow over the jobs' numbers: what was counted and timed on these days, in blocks."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                table = added_up(sent_of(jobs[number], url, names), steps_of(jobs[number], url, names), days)
                yield from blocks(table, (table["topic"].to_numpy() + table["hour"].to_numpy()) % parts)

    return work


def sent_of(job: Job, url: str, names: Names) -> Columns:
    """Messages: when they were sent and when due. Once each: one that came back into the log is there twice."""
    table = rows_of(job, "message", url, names, ["enqueued_at", "deliver_after", "payload_bytes"])
    at, after = table["enqueued_at"].cast(pa.int64()), table["deliver_after"].cast(pa.int64())
    ids = table["id"].to_numpy()
    order = np.argsort(ids, kind="stable")
    kept = order[is_first(ids[order])]
    columns = {"id": table["id"], "topic": table["topic_id"], "at": at, "due": pc.max_element_wise(at, after),
               "size": table["payload_bytes"]}  # fmt: skip
    return {name: column.to_numpy()[kept] for name, column in columns.items()}


def steps_of(job: Job, url: str, names: Names) -> Columns:
    table = once(rows_of(job, "event", url, names, ["at", "epoch", "kind", "due"]))
    at = table["at"].cast(pa.int64())
    columns = {"id": table["id"], "topic": table["topic_id"], "at": at, "epoch": table["epoch"].cast(pa.int64()),
               "kind": table["kind"], "due": pc.coalesce(table["due"].cast(pa.int64()), at)}  # fmt: skip
    return {name: column.to_numpy() for name, column in columns.items()}


def added_up(sent: Columns, steps: Columns, days: frozenset[int]) -> pa.Table:
    """By topic and hour: counts, and every time."""
    keys = [of["topic"].astype(np.int64) << 32 | of["at"] // HOUR_US for of in (sent, steps)]
    groups = pa.array(np.concatenate(keys)).dictionary_encode()
    numbers, places = len(groups.dictionary), groups.indices.to_numpy()
    of_sent, of_steps = places[: len(sent["id"])], places[len(sent["id"]) :]
    kind = steps["kind"]
    first, again, acked, dead = (np.flatnonzero(kind == one) for one in (DELIVERED, AGAIN, ACKED, DEAD))

    def count(places: Numbers) -> Numbers:
        return np.bincount(places, minlength=numbers)

    def lists(chosen: Numbers, begun: Numbers) -> pa.Array:
        return _lists(of_steps[chosen], steps["at"][chosen], begun, numbers)

    handed = np.concatenate([first, again])
    counts = [count(of_sent), np.bincount(of_sent, sent["size"], numbers), count(of_steps[handed]),
              *(count(of_steps[chosen]) for chosen in (again, acked, dead))]  # fmt: skip
    times = [lists(first, _due(sent, steps, first)), lists(acked, _delivered_at(steps, handed, acked)),
             lists(acked, _due(sent, steps, acked))]  # fmt: skip
    topics, hours = groups.dictionary.to_numpy() >> 32, groups.dictionary.to_numpy() & HIGHEST_HOUR
    table = pa.table([topics, hours, *(values.astype(np.int64) for values in counts), *times], schema=PARTIAL)
    return table.filter(np.isin(hours // HOURS_A_DAY, list(days)))


def finished(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All that is known of some hours of topics, in one row each."""
    table = joined(batches)
    if not table.num_rows:
        return
    keys = table["topic"].to_numpy() << 32 | table["hour"].to_numpy()
    order = np.argsort(keys, kind="stable")
    table, keys = table.take(order), keys[order]
    starts = np.flatnonzero(is_first(keys))
    counts = [np.add.reduceat(table[name].to_numpy(), starts) for name in COUNTS]
    bounds = [*starts, len(keys)]
    times = [[_percentiles(table[name].slice(start, end - start)) for start, end in pairwise(bounds)] for name in TIMES]
    columns = [(keys[starts] & HIGHEST_HOUR) * 3600, keys[starts] >> 32, *counts, *times]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, HOURS, strict=True)]
    yield from pa.Table.from_arrays(arrays, schema=HOURS).to_batches()


def _due(sent: Columns, steps: Columns, chosen: Numbers) -> Numbers:
    """When the messages of some steps were due: by what they were sent with, or by the last move or replay before."""
    due = looked_up(sent["id"], sent["due"], steps["id"][chosen])
    anew = np.flatnonzero((steps["kind"] == MOVED) | (steps["kind"] == REPLAYED))
    if not len(anew):
        return due
    both, is_chosen = np.concatenate([anew, chosen]), np.repeat([0, 1], [len(anew), len(chosen)])
    order = np.lexsort((is_chosen, steps["at"][both], steps["id"][both]))
    last = np.maximum.accumulate(np.where(is_chosen[order] == 0, np.arange(len(order)), -1))
    before, asked = both[order[last]], both[order]
    found = np.flatnonzero((last >= 0) & (is_chosen[order] == 1) & (steps["id"][before] == steps["id"][asked]))
    due[order[found] - len(anew)] = steps["due"][before[found]]
    return due


def _delivered_at(steps: Columns, handed: Numbers, acked: Numbers) -> Numbers:
    """When the delivery was handed out that an ack ended."""
    found = of_same_try(steps["id"], steps["epoch"], handed, acked)
    known = found != UNKNOWN  # or it is of a topic that was not traced
    found[known] = steps["at"][found[known]]
    return found


def _lists(groups: Numbers, ended: Numbers, begun: Numbers, count: int) -> pa.Array:
    """The times between the two, as far as known, of each group."""
    known = np.flatnonzero(begun != UNKNOWN)
    groups, taken = groups[known], np.maximum(0, ended[known] - begun[known])
    order = np.argsort(groups.astype(np.int16) if count < 1 << 15 else groups, kind="stable")  # short ones sort faster
    ends = np.cumsum(np.bincount(groups, minlength=count))
    return pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), pa.array(taken[order]))


def _percentiles(lists: pa.ChunkedArray) -> list[float] | None:
    """In milliseconds, between two values where need be; None of nothing."""
    values = lists.combine_chunks().flatten().to_numpy()
    return [float(value) / 1000 for value in np.quantile(values, SHARES)] if len(values) else None

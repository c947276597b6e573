"""What each topic did in each hour, worked out in Spark tasks.

Where the rows of a message meet, its steps are timed; what was found is laid on the shelf by topic and hour, for
whoever then knows all of an hour and with that its percentiles.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.blocks import Numbers, parted
from pipeline.chunks import Batches, Names
from pipeline.meeting import UNKNOWN, Job, is_first, lengths, looked_up, of_same_try, once, rows_of
from pipeline.shelf import Shelf

DELIVERED, AGAIN, MOVED, ACKED, DEAD, REPLAYED = 2, 3, 7, 8, 9, 10  # kinds of events
SHARES = (0.5, 0.95, 0.99)
COUNTS = ("messages", "bytes", "deliveries", "retries", "acked", "dead")
TIMES = ("wait_ms", "work_ms", "total_ms")
HOUR_US, HOURS_A_DAY, HIGHEST_HOUR = 3_600_000_000, 24, 0xFFFFFFFF

PARTIAL = ("topic", "hour", *COUNTS, *TIMES)
HOURS = pa.schema([
    ("hour", pa.int64()), ("topic_id", pa.int32()), *((name, pa.int64()) for name in COUNTS),
    *((name, pa.list_(pa.float64())) for name in TIMES),
])  # fmt: skip
HOURS_DDL = ", ".join(["hour long, topic_id int", *(f"{name} long" for name in COUNTS),
                       *(f"{name} array<double>" for name in TIMES)])  # fmt: skip

Columns = dict[str, Numbers]


def by_hour(jobs: list[Job], url: str, names: Names, days: frozenset[int], parts: int, shelf: Shelf) -> Batches:
    """For mapInArrow over the jobs' numbers: where it is laid what was counted and timed on these days."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                table = added_up(sent_of(jobs[number], url, names), steps_of(jobs[number], url, names), days)
                numbers = (table["topic"].to_numpy() + table["hour"].to_numpy()) % parts
                yield from shelf.lay_parts(parted(table, numbers))

    return work


def sent_of(job: Job, url: str, names: Names) -> Columns:
    """Messages: when they were sent and when due, and their order by id. Once each: one that came back into the log is
    there twice."""
    table = rows_of(job, "message", url, names, ["enqueued_at", "deliver_after", "payload_bytes"])
    order = np.argsort(table["id"].to_numpy(), kind="stable")
    is_one = is_first(table["id"].to_numpy()[order])
    if not is_one.all():
        table = table.take(pa.array(np.sort(order[is_one])))
        order = np.argsort(table["id"].to_numpy(), kind="stable")
    at, after = table["enqueued_at"].cast(pa.int64()), table["deliver_after"]
    due = at if after.null_count == len(table) else pc.max_element_wise(at, after.cast(pa.int64()))
    columns = {"id": table["id"], "topic": table["topic_id"], "at": at, "due": due, "size": table["payload_bytes"]}
    return {name: column.to_numpy() for name, column in columns.items()} | {"order": order}


def steps_of(job: Job, url: str, names: Names) -> Columns:
    table = once(rows_of(job, "event", url, names, ["at", "epoch", "kind", "due"]))
    at, due = table["at"].cast(pa.int64()), table["due"]
    due = at if due.null_count == len(table) else pc.coalesce(due.cast(pa.int64()), at)
    columns = {"id": table["id"], "topic": table["topic_id"], "at": at, "epoch": table["epoch"], "kind": table["kind"],
               "due": due}  # fmt: skip
    return {name: column.to_numpy() for name, column in columns.items()}


def added_up(sent: Columns, steps: Columns, days: frozenset[int]) -> pa.Table:
    """By topic and hour: counts, and every time."""
    keys = np.concatenate([of["topic"].astype(np.int64) << 32 | of["at"] // HOUR_US for of in (sent, steps)])
    heads = np.flatnonzero(is_first(keys))  # those of a topic mostly stand together, and follow each other in time
    groups = pa.array(keys[heads]).dictionary_encode()
    numbers, places = len(groups.dictionary), np.repeat(groups.indices.to_numpy(), lengths(heads, len(keys)))
    of_sent, of_steps = places[: len(sent["id"])], places[len(sent["id"]) :]
    kind = steps["kind"]
    first, again, acked, dead = (np.flatnonzero(kind == one) for one in (DELIVERED, AGAIN, ACKED, DEAD))

    def count(places: Numbers) -> Numbers:
        return np.bincount(places, minlength=numbers)

    def lists(chosen: Numbers, begun: Numbers) -> pa.Array:
        return _lists(of_steps[chosen], steps["at"][chosen], begun, numbers)

    handed, due = np.concatenate([first, again]), _due(sent, steps)
    counts = [count(of_sent), np.bincount(of_sent, sent["size"], numbers), count(of_steps[handed]),
              *(count(of_steps[chosen]) for chosen in (again, acked, dead))]  # fmt: skip
    times = [lists(first, _due_anew(steps, due, first)), lists(acked, _delivered_at(steps, handed, acked)),
             lists(acked, _due_anew(steps, due, acked))]  # fmt: skip
    topics, hours = groups.dictionary.to_numpy() >> 32, groups.dictionary.to_numpy() & HIGHEST_HOUR
    table = pa.table([topics, hours, *(values.astype(np.int64) for values in counts), *times], names=PARTIAL)
    return table.filter(np.isin(hours // HOURS_A_DAY, list(days)))


def finishing(shelf: Shelf) -> Batches:
    """For mapInArrow over places on the shelf, where it is laid what is known of some hours of topics."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if tables := shelf.get_all(batches):
            yield from finished(pa.concat_tables(tables, promote_options="permissive")).to_batches()

    return work


def finished(table: pa.Table) -> pa.Table:
    """One row of each topic and hour."""
    keys = table["topic"].to_numpy() << 32 | table["hour"].to_numpy()
    order = np.argsort(keys, kind="stable")
    table, keys = table.take(order), keys[order]
    starts = np.flatnonzero(is_first(keys))
    counts = [np.add.reduceat(table[name].to_numpy(), starts) for name in COUNTS]
    bounds = np.append(starts, len(keys)).tolist()
    times = [[_percentiles(table[name].slice(start, end - start)) for start, end in pairwise(bounds)] for name in TIMES]
    columns = [(keys[starts] & HIGHEST_HOUR) * 3600, keys[starts] >> 32, *counts, *times]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, HOURS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=HOURS)


def _due(sent: Columns, steps: Columns) -> Numbers:
    """When the message of each step was due, by what it was sent with."""
    heads = np.flatnonzero(is_first(steps["id"]))
    order = sent["order"]
    found = looked_up(sent["id"][order], sent["due"][order], steps["id"][heads])
    return np.repeat(found, lengths(heads, len(steps["id"])))


def _due_anew(steps: Columns, due: Numbers, chosen: Numbers) -> Numbers:
    """When those of some steps were due in the end: by the last move or replay before, if there is one."""
    due = due[chosen]
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
    if taken.max(initial=0) <= np.iinfo(np.int32).max:  # half the bytes, as a rule
        taken = taken.astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), pa.array(taken[order]))


def _percentiles(lists: pa.ChunkedArray) -> list[float] | None:
    """In milliseconds, between two values where need be; None of nothing."""
    values = lists.combine_chunks().flatten().to_numpy()
    return [float(value) / 1000 for value in np.quantile(values, SHARES)] if len(values) else None

"""Where all rows of a message meet, in Spark tasks.

They lie in two logs and in any of their files, but all files tell which ids they hold. So a task takes a range of ids,
and reads what may have some of it: no row has to be sent from task to task.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from pipeline.blocks import Numbers
from pipeline.chunks import Names
from pipeline.layout import LAYOUTS
from pipeline.pieces import HIGHEST_ID, Piece, read_one
from pipeline.storage import Storage

JOB_ROWS = 2_000_000  # of both logs, in memory at a time
UNKNOWN = np.iinfo(np.int64).min
COPIED = 0  # the txid of rows that came from another shard

Job = list[Piece]


def jobs(log: list[Piece], rows_of_job: int = JOB_ROWS) -> list[Job]:
    """The log by ranges of ids with about so many rows each, as if ids were spread evenly over each piece."""
    lows, highs, rows = (np.array([getattr(piece, name) for piece in log], float) for name in ("low", "high", "rows"))
    count = 1 + int(rows.sum()) // rows_of_job

    def below(number: float) -> float:
        return float((rows * np.clip((number - lows) / (highs + 1 - lows), 0, 1)).sum())

    cuts = [0, *(_where(below, rows.sum() * n / count, highs.max(initial=0)) for n in range(1, count)), HIGHEST_ID]
    return [
        [replace(piece, low=max(piece.low, low), high=min(piece.high, high - 1))
         for piece in log if piece.low < high and piece.high >= low]
        for low, high in pairwise(cuts)
    ]  # fmt: skip


def _where(below: Callable[[float], float], wanted: float, last: float) -> int:
    """The least id below which there are so many rows."""
    low, high = 0, int(last)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if below(middle) < wanted else (low, middle)
    return low


def rows_of(
    job: Job,
    parent: str,
    url: str,
    names: Names,
    columns: list[str],
    wanted: Callable[[pa.Table], pa.Table] = lambda table: table,
) -> pa.Table:
    """Of one of the logs. What is not wanted does not stay in memory longer than its piece."""
    schema = pa.schema([LAYOUTS[parent].schema.field(name) for name in ("id", "txid", "topic_id", *columns)])
    tables = [wanted(read_one(piece, Storage(url), names, schema)) for piece in job if piece.parent == parent]
    return pa.concat_tables([schema.empty_table(), *tables])


def once(events: pa.Table) -> pa.Table:
    """Without what a move of slots has copied from another shard, of whose rows the lake had the day by then."""
    if COPIED not in events["txid"].to_numpy():
        return events
    columns = [events[name].cast(pa.int64()).to_numpy() for name in ("at", "kind", "epoch", "id")]
    order = np.lexsort(columns)
    kept = np.logical_or.reduce([is_first(column[order]) for column in columns])
    return events.take(pa.array(np.sort(order[kept])))


def is_first(values: Numbers) -> Numbers:
    """Of those that are alike and stand together."""
    return np.concatenate([[True], values[1:] != values[:-1]]) if len(values) else np.zeros(0, bool)


def lengths(starts: Numbers, end: int) -> Numbers:
    """Of runs that begin there, the last of which ends there."""
    return np.diff(np.append(starts, end))


def looked_up(keys: Numbers, values: Numbers, wanted: Numbers) -> Numbers:
    """The value of each wanted key, or UNKNOWN. Keys ascend."""
    if not len(keys):
        return np.full(len(wanted), UNKNOWN)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], UNKNOWN)


def of_same_try(ids: Numbers, epochs: Numbers, chosen: Numbers, wanted: Numbers) -> Numbers:
    """For each wanted row the chosen one of the same id and epoch, or UNKNOWN: their places among all rows. It mostly
    stands right before, as files are sorted."""
    is_chosen = np.zeros(len(ids), bool)
    is_chosen[chosen] = True
    before = np.maximum(wanted - 1, 0)
    is_it = is_chosen[before] & (ids[before] == ids[wanted]) & (epochs[before] == epochs[wanted])
    found = np.where(is_it, before, UNKNOWN)
    left = np.flatnonzero(~is_it)
    if len(left):
        few = np.unique(ids[wanted[left]])
        chosen = chosen[looked_up(few, few, ids[chosen]) != UNKNOWN]
        found[left] = _wherever(ids, epochs, chosen, wanted[left])
    return found


def _wherever(ids: Numbers, epochs: Numbers, chosen: Numbers, wanted: Numbers) -> Numbers:
    chosen = chosen[np.lexsort((epochs[chosen], ids[chosen]))]
    which = np.flatnonzero(is_first(ids[chosen]))
    tries = np.repeat(np.arange(len(which)), lengths(which, len(chosen))) << 32 | epochs[chosen]
    messages = looked_up(ids[chosen][which], np.arange(len(which)), ids[wanted])
    return looked_up(tries, chosen, np.where(messages == UNKNOWN, -1, messages << 32 | epochs[wanted]))

"""Hours are the same however the log lies: held against a plain reckoning of the same rows."""

import datetime
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.hours import ACKED, AGAIN, COUNTS, DEAD, DELIVERED, MOVED, REPLAYED, SHARES, TIMES, by_hour, finishing
from pipeline.layout import LAYOUTS
from pipeline.meeting import jobs
from pipeline.pieces import Piece
from pipeline.shelf import Shelf
from pipeline.storage import Storage

pytestmark = pytest.mark.pipeline
NAMES = {1: ("acme", "a"), 2: ("acme", "b"), 70_000: ("other", "a")}
DAY = datetime.date(2026, 11, 16)
DAY_NUMBER = (DAY - datetime.date(1970, 1, 1)).days
DAY_US, HOUR_US = 86_400_000_000, 3_600_000_000
NACKED = 4
Row = dict[str, Any]


def a_past(rng: random.Random) -> tuple[list[Row], list[Row]]:
    """Messages around a day and their steps: scheduled, tried again, moved, not traced, unknown, twice in the log."""
    messages: list[Row] = []
    events: list[Row] = []
    for number in range(2_000):
        topic = rng.choice(list(NAMES))
        at = int((DAY_NUMBER - 0.1) * DAY_US + rng.random() * 1.2 * DAY_US)
        one = {
            "id": number * 1024 + rng.randrange(1024), "topic_id": topic, "enqueued_at": at,
            "deliver_after": rng.choice([None, at + HOUR_US]), "payload_bytes": rng.randrange(500),
        }  # fmt: skip
        if rng.random() < 0.95:  # the others left the log before their steps
            messages += [one] * (2 if rng.random() < 0.02 else 1)
        now = at
        topic = rng.choice(list(NAMES)) if rng.random() < 0.05 else topic
        for epoch in range(1, rng.choice([0, 1, 1, 1, 2, 4]) + 1):
            now += rng.randrange(HOUR_US)
            step = {"id": one["id"], "topic_id": topic, "epoch": epoch}
            if rng.random() < 0.1:
                now += 1
                again = {"kind": rng.choice([MOVED, REPLAYED]), "at": now, "due": rng.choice([None, now + 10**6])}
                events.append(step | again)
                now += 1
            if rng.random() < 0.9:  # the others were not traced
                events.append(step | {"kind": DELIVERED if epoch == 1 else AGAIN, "at": now})
            now += rng.randrange(10**7)
            events.append(step | {"kind": rng.choice([ACKED, ACKED, NACKED, DEAD]), "at": now})
    return messages, events


def write(folder: Path, parent: str, rows: list[Row], rng: random.Random, where: str = "") -> list[Piece]:
    """Files of ranges of ids and of topics, as the archive and a compaction leave them. Copies, which lie elsewhere,
    have no txid."""
    layout, found = LAYOUTS[parent], []
    chosen = rng.choice(["ids", "topics"])
    for part in range(5):
        mine = [row for row in rows if (row["id"] // 1024 // 401 if chosen == "ids" else row["topic_id"] % 5) == part]
        if not mine:
            continue
        if chosen == "topics":
            rng.shuffle(mine)  # as a shard gives them
        columns = {name: [row.get(name) for row in mine] for name in layout.schema.names}
        columns["txid"] = [0 if where else rng.choice([5, 5, 5, 99])] * len(mine)  # the horizon is 100
        arrays = [pa.array(columns[field.name], pa.int64() if pa.types.is_timestamp(field.type) else field.type)
                  .cast(field.type) for field in layout.schema]  # fmt: skip
        path = f"{where}{parent}-{part}.parquet"
        Storage(str(folder)).write(path, pa.Table.from_arrays(arrays, schema=layout.schema))
        ids = [row["id"] for row in mine]
        found.append(Piece(parent, 0, 100, path=path, rows=len(mine), low=min(ids), high=max(ids)))
    return found


def reckoned(messages: list[Row], events: list[Row]) -> dict[tuple[int, int], Row]:
    """One row after the other."""
    found: dict[tuple[int, int], Row] = defaultdict(lambda: dict.fromkeys(COUNTS, 0) | {name: [] for name in TIMES})
    once = {row["id"]: row for row in messages}
    handed = {(row["id"], row["epoch"]): row["at"] for row in events if row["kind"] in (DELIVERED, AGAIN)}
    anew: dict[int, list[Row]] = defaultdict(list)
    for row in events:
        if row["kind"] in (MOVED, REPLAYED):
            anew[row["id"]].append(row)
    for row in once.values():
        one = found[row["enqueued_at"] // HOUR_US, row["topic_id"]]
        one["messages"] += 1
        one["bytes"] += row["payload_bytes"]
    for row in events:
        one, sent = found[row["at"] // HOUR_US, row["topic_id"]], once.get(row["id"])
        due = sent and max(sent["enqueued_at"], sent["deliver_after"] or 0)
        if before := [one for one in anew[row["id"]] if one["at"] <= row["at"]]:
            last = max(before, key=lambda one: one["at"])
            due = last.get("due") or last["at"]
        one["deliveries"] += row["kind"] in (DELIVERED, AGAIN)
        one["retries"] += row["kind"] == AGAIN
        one["acked"] += row["kind"] == ACKED
        one["dead"] += row["kind"] == DEAD
        if row["kind"] == DELIVERED and due is not None:
            one["wait_ms"].append(max(0, row["at"] - due))
        if row["kind"] == ACKED and (row["id"], row["epoch"]) in handed:
            one["work_ms"].append(row["at"] - handed[row["id"], row["epoch"]])
        if row["kind"] == ACKED and due is not None:
            one["total_ms"].append(max(0, row["at"] - due))
    for one in found.values():
        one |= {name: list(np.quantile(one[name], SHARES) / 1000) if one[name] else None for name in TIMES}
    return {key: one for key, one in found.items() if key[0] // 24 == DAY_NUMBER}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("moved", [False, True])
def test_hours_are_what_a_plain_reckoning_finds(seed: int, moved: bool, tmp_path: Path) -> None:
    """Also where a shard's day was in the lake when slots left it: they took its rows along."""
    rng = random.Random(seed)
    messages, events = a_past(rng)
    log = [*write(tmp_path, "message", messages, rng), *write(tmp_path, "event", events, rng)]
    if moved:
        for parent, rows in (("message", messages), ("event", events)):
            log += write(tmp_path, parent, [row for row in rows if row["id"] % 3], rng, "copies-")
    found = jobs(log, rng.choice([300, 2_000, 10**6]))
    numbers = pa.record_batch([pa.array(range(len(found)))], names=["number"])
    shelf = Shelf(str(tmp_path), "parts")
    places = list(by_hour(found, str(tmp_path), NAMES, frozenset([DAY_NUMBER]), 3, shelf)(iter([numbers])))
    rows = []
    for part in range(3):
        mine = [one.filter(pc.equal(one["number"], part)) for one in places]
        rows += [row for batch in finishing(shelf)(iter(mine)) for row in batch.to_pylist()]
    expected = reckoned(messages, events)
    assert len(rows) == len(expected) > 40
    for row in rows:
        one = expected[row["hour"] // 3600, row["topic_id"]]
        assert {name: row[name] for name in COUNTS} == {name: one[name] for name in COUNTS}
        for name in TIMES:
            assert (row[name] is None) == (one[name] is None)
            assert row[name] is None or np.allclose(row[name], one[name])


def test_every_id_is_of_one_job_and_jobs_are_of_a_size() -> None:
    log = [Piece("message", 0, 9, path=str(n), rows=1_000, low=n * 10**6, high=(n + 1) * 10**6 - 1) for n in range(10)]
    log += [Piece("event", 1, 9, path="wide", rows=20_000, low=0, high=10**7 - 1)]
    found = jobs(log, 3_000)
    assert len(found) == 11
    for path in ("3", "wide"):
        ranges = sorted((piece.low, piece.high) for job in found for piece in job if piece.path == path)
        assert ranges[0][0] == min(one.low for one in log if one.path == path)
        assert ranges[-1][1] == max(one.high for one in log if one.path == path)
        assert all(end + 1 == begin for (_, end), (begin, _) in pairwise(ranges))
    shares = [sum(piece.rows * (piece.high - piece.low + 1) / (10**7 if piece.path == "wide" else 10**6)
                  for piece in job) for job in found]  # fmt: skip
    assert max(shares) < 1.01 * min(shares)


def test_a_log_of_nothing_is_one_job() -> None:
    assert jobs([], 10) == [[]]

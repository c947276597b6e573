"""What the options of a read ask for. They are named after those of Spark's Kafka source; none of them is a secret."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.errors import PipelineError
from pipeline.layout import LAYOUTS, Layout
from pipeline.times import moment

EARLIEST, LATEST = "earliest", "latest"
FAR = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
KNOWN = {
    "log", "namespace", "topic", "startingtimestamp", "endingtimestamp", "startingoffsets", "endingoffsets",
    "rowsperpartition", "maxrowspertrigger", "lake",
}  # fmt: skip
Offsets = str | dict[int, int]  # a word, or by shard the txid that comes first


@dataclass(frozen=True, slots=True)
class Asked:
    """`first` is in, `last` is not, and so with offsets."""

    layout: Layout
    namespace: str | None
    topics: tuple[str, ...]  # none: every one
    first: datetime.datetime
    last: datetime.datetime
    starting: Offsets | None
    ending: Offsets | None
    rows_per_partition: int | None
    max_rows: int | None
    lake: str | None  # None: the one of the environment


def read_options(given: Mapping[str, str]) -> Asked:
    options = {name.lower(): value for name, value in given.items()}
    if unknown := sorted(options.keys() - KNOWN):
        raise PipelineError(f"mqueue cannot be read with the options {', '.join(unknown)}")
    log = options.get("log", "message")
    if log not in LAYOUTS:
        raise PipelineError(f"log is {log!r}, and has to be one of {', '.join(LAYOUTS)}")
    topics = tuple(part.strip() for part in options.get("topic", "").split(",") if part.strip())
    if topics and not options.get("namespace"):
        raise PipelineError("topic needs namespace")
    return Asked(
        layout=LAYOUTS[log],
        namespace=options.get("namespace") or None,
        topics=topics,
        first=_time(options, "startingtimestamp") or LONG_AGO,
        last=_time(options, "endingtimestamp") or FAR,
        starting=_offsets(options, "startingoffsets"),
        ending=_offsets(options, "endingoffsets"),
        rows_per_partition=_count(options, "rowsperpartition"),
        max_rows=_count(options, "maxrowspertrigger"),
        lake=options.get("lake"),
    )


def _time(options: Mapping[str, str], name: str) -> datetime.datetime | None:
    """Milliseconds since 1970, as Kafka's source has them, or a time in words, in UTC unless it says."""
    text = options.get(name, "").strip()
    if not text:
        return None
    try:
        if text.isdecimal():
            return LONG_AGO + datetime.timedelta(milliseconds=int(text))
        return moment(text)
    except (ValueError, OverflowError):
        raise PipelineError(f"{name} is {text!r}: milliseconds since 1970, or such as 2026-11-18T12:00:00Z") from None


def _offsets(options: Mapping[str, str], name: str) -> Offsets | None:
    text = options.get(name, "").strip()
    if not text or text in (EARLIEST, LATEST):
        return text or None
    try:
        return {int(shard): int(txid) for shard, txid in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise PipelineError(
            f'{name} is {text!r}: earliest, latest, or a txid for each shard, such as {{"0": 1200}}'
        ) from None


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise PipelineError(f"{name} is {text!r}, and has to be a number of rows")
    return int(text)

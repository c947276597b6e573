"""Files of the lake made anew from its own files: merged, or without some rows.

What the new ones hold is compared with what the list says of the parts that they are made of; then one transaction a
partition puts them on the list and retires the old ones. Killed anywhere, each partition has either all of its old
files or all of its new ones, and what is on no list `gc` collects.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mqueue.core.conf import Conf
from pipeline.chunks import STATS_DDL, Chunk
from pipeline.manifest import compare, sums_of, swap, take_up
from pipeline.models import File, Part, Partition
from pipeline.rewriting import Merging, merger
from pipeline.spark import Sessions
from shards.models import Deployment

AT_ONCE = 16  # partitions of one Spark job
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Change:
    """Files of a partition, and of each new file that comes in their place the parts that it takes."""

    partition: Partition
    old: list[File]
    new: list[list[Part]]

    def __str__(self) -> str:
        before, after = sum(file.rows for file in self.old), sum(part.rows for parts in self.new for part in parts)
        gone = f", without {before - after} rows" if before != after else ""
        return f"{self.partition}: {len(self.old)} files are {len(self.new)} now{gone}"


def rewrite(conf: Conf, sessions: Sessions, changes: Sequence[Change], say: Say) -> None:
    for start in range(0, len(changes), AT_ONCE):
        some = changes[start : start + AT_ONCE]
        for change in some:
            take_up(change.partition)
        found = written(conf, sessions, some, say)
        for number, change in enumerate(some):
            swap(change.partition, change.old, found[number])
            say(f"rewrote {change}")


def written(conf: Conf, sessions: Sessions, changes: Sequence[Change], say: Say) -> dict[int, list[Any]]:
    """What the new files hold, by the number of their change: exactly what they have to."""
    wanted = [(number, parts) for number, change in enumerate(changes) for parts in change.new]
    found: dict[int, list[Any]] = defaultdict(list)
    if not wanted:
        return found
    jobs = [merging(changes[number].partition, parts) for number, parts in wanted]
    numbers = sessions.get().range(0, len(jobs), 1, len(jobs))
    say(f"writing {len(jobs)} files")
    rows = numbers.mapInArrow(merger(jobs, conf.lake.url), STATS_DDL).collect()
    say("written")
    for place, (number, parts) in enumerate(wanted):
        mine = [row for row in rows if row.chunk == place]
        compare(changes[number].partition, sums_of(mine), sums_of(parts))
        found[number] += mine
    return found


def merging(partition: Partition, parts: list[Part]) -> Merging:
    sources: dict[str, list[int]] = defaultdict(list)
    for part in parts:
        sources[part.file.path].append(part.topic)
    names = {part.topic: (part.namespace, part.name) for part in parts}
    low, high = min(part.min_id for part in parts), max(part.max_id for part in parts)
    deployment = str(Deployment.objects.get().identity)
    into = Chunk(deployment, partition.parent, partition.shard, partition.day, partition.term, low, high, names)
    return Merging(dict(sources), into)

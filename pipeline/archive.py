"""archive: days that are over, from every shard into the lake.

Per partition: seal it, measure it in SQL, copy it in pieces by Spark tasks, compare, and publish what was written in
one transaction. Killed anywhere, the next run does the partition again from its measure on; what the dead one left is
on no list, and `gc` collects it.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from django.utils import timezone

from mqueue.core.conf import Conf
from pipeline.chunks import CHUNK_BYTES, STATS_DDL, Chunk, Names, copier
from pipeline.compact import ROW_BYTES
from pipeline.digests import Sums, add_up
from pipeline.errors import NothingToDo, PipelineError, TaskFailed
from pipeline.layout import LAYOUTS
from pipeline.manifest import TO_ARCHIVE, State, change, publish, take_up_to_archive
from pipeline.models import Partition
from pipeline.pieces import HIGHEST_ID
from pipeline.pull import BACKEND, make_way
from pipeline.spark import Sessions, telling_failures
from pipeline.troubles import Troubles
from pipeline.turns import Turn, turn
from shards.migrate import IN_USE, LONG_EACH, LONG_TIMEOUT
from shards.models import Deployment
from shards.retention import LOCK_TIMEOUT, Connection, connected, log_partitions, today
from shards.sql import statement

AT_ONCE = 16  # partitions of one Spark job
MEASURE_S = 6 * 3600
SEAL_TRIES = 50
SAMPLED_PAGES, SAMPLED_OF_PIECE = 500, 20  # of a day at the least, and on the average
LOWEST = -1  # below all ids
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    partition: Partition
    expected: dict[int, Sums]
    chunks: list[Chunk]


def archive(conf: Conf, sessions: Sessions, say: Say) -> None:
    troubles = Troubles(say)
    with turn(conf) as mine:
        shards = note_all_closed(conf, troubles)
        for partition in Partition.objects.filter(state=State.OPEN, shard__in=shards):
            mine.require()
            with troubles.of(partition):
                seal_one(conf, partition)
                say(f"sealed {partition}")
        waiting = list(Partition.objects.filter(state__in=TO_ARCHIVE, shard__in=shards))
        for start in range(0, len(waiting), AT_ONCE):
            copy(Run(conf, sessions, mine, troubles, say), waiting[start : start + AT_ONCE])
    troubles.end()
    if not waiting:
        raise NothingToDo("No day is over that is not in the lake")


def note_all_closed(conf: Conf, troubles: Troubles) -> list[int]:
    """Answers the shards that may be archived: a column that nobody copies may have values in every day."""
    noted = []
    for shard in range(len(conf.shard_urls)):
        with troubles.of(f"shard {shard}"):
            note_closed(conf, shard)
            noted.append(shard)
    return noted


def note_closed(conf: Conf, shard: int) -> None:
    """Days that are over on this shard, by its own clock."""
    with connected(conf.shard_urls[shard]) as connection:
        _, last = today(connection)
        found = [one for one in log_partitions(connection) if one.is_attached and one.day <= last]
        for parent, layout in LAYOUTS.items():
            check_columns(connection, parent, layout.columns_of_shard)
    Partition.objects.bulk_create(
        [Partition(shard=shard, parent=one.parent, day=one.day) for one in found], ignore_conflicts=True
    )


def check_columns(connection: Connection, parent: str, known: set[str]) -> None:
    """A column that a migration has added and nobody copies must not be dropped with its partition."""
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped", [parent]
    )
    there = {row[0] for row in rows.fetchall()}
    if there != known:
        raise PipelineError(f"{parent} has columns that the archive does not know: {sorted(map(str, there ^ known))}")


def seal_one(conf: Conf, partition: Partition) -> None:
    with connected(conf.shard_urls[partition.shard]) as connection:
        seal(connection, partition.parent, partition.day)
    change(partition, [State.OPEN], state=State.SEALED, sealed_at=timezone.now())


def seal(connection: Connection, parent: str, day: datetime.date) -> None:
    """The lock is asked for briefly and often: those who come behind us wait no longer than that. Each fifth time is
    longer than deadlock_timeout, after which a vacuum that is in the way is ended."""
    for tried in range(1, SEAL_TRIES + 1):
        patience = LOCK_TIMEOUT if tried % LONG_EACH else LONG_TIMEOUT
        connection.execute("SELECT set_config('lock_timeout', %s, false)", [patience])
        try:
            connection.execute("SELECT seal_partition(%s, %s)", [parent, day])
            return
        except IN_USE:
            if tried == SEAL_TRIES:
                raise PipelineError("it is in use all the time and cannot be sealed") from None
            connection.execute("SELECT pg_sleep(0.2)")


@dataclass(frozen=True, slots=True)
class Run:
    conf: Conf
    sessions: Sessions
    turn: Turn
    troubles: Troubles
    say: Say


def copy(run: Run, partitions: list[Partition]) -> None:
    run.turn.require()
    found = []
    for partition in partitions:
        with run.troubles.of(partition):
            found.append(measure(run.conf, take_up_to_archive(partition)))
    rows = sum(sums.rows for one in found for sums in one.expected.values())
    run.say(f"measured {len(found)} partitions, {rows} rows")
    try:
        copied(run, found)
    except TaskFailed as failed:
        run.say(f"{failed}; now each partition by itself")
        for one in found:
            with run.troubles.of(one.partition):
                copied(run, [one])


def copied(run: Run, measured: list[Measured]) -> None:
    chunks = [chunk for one in measured for chunk in one.chunks]
    found = []
    if chunks:
        numbers = run.sessions.get().range(0, len(chunks), 1, len(chunks))
        run.say(f"copying {len(chunks)} pieces")
        with telling_failures():
            found = numbers.mapInArrow(copier(chunks, run.conf.lake.url), STATS_DDL).collect()
        run.say("copied")
    owners = [one for one in measured for _ in one.chunks]
    for one in measured:
        run.turn.require()
        with run.troubles.of(one.partition):
            rows = publish(one.partition, [row for row in found if owners[row.chunk] is one], one.expected)
            run.say(f"published {one.partition}: {rows} rows")


def measure(conf: Conf, partition: Partition) -> Measured:
    with connected(conf.shard_urls[partition.shard], patience=f"{MEASURE_S}s") as connection:
        make_way(*(connection.execute(BACKEND).fetchone() or (0, False)))
        parts = [part for some in ranges(connection, partition) for part in measured(connection, partition, *some)]
        topics = sorted({one.topic for part in parts for one in part.sums})
        known = connection.execute(statement("topic_names"), {"topics": topics}).fetchall()
    names: Names = {number: (namespace, name) for number, namespace, name in known}
    if missing := set(topics) - names.keys():
        raise PipelineError(f"{partition}: topics without a name: {sorted(missing)[:5]}")
    deployment = str(Deployment.objects.get().identity)
    of_partition = (deployment, partition.parent, partition.shard, partition.day, partition.term)
    chunks = [
        Chunk(*of_partition, part.low, part.high, {one.topic: names[one.topic] for one in part.sums}, part.empty)
        for part in parts
    ]
    return Measured(partition, add_up([one for part in parts for one in part.sums]), chunks)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a range of ids has, by topic, and the columns in which it has nothing."""

    sums: list[Sums]
    empty: frozenset[str]

    @property
    def low(self) -> int:
        return min(one.min_id for one in self.sums)

    @property
    def high(self) -> int:
        return max(one.max_id for one in self.sums)

    def size_with(self, of_row: int) -> int:
        return sum(one.bytes + one.rows * of_row for one in self.sums)


def ranges(connection: Connection, partition: Partition) -> list[tuple[int, int]]:
    """Of ids, all there can be, with about as many bytes each: by a sample, so that nobody sorts the whole day."""
    query = "SELECT pg_relation_size(%s::regclass), current_setting('block_size')::integer"
    size, of_page = connection.execute(query, [partition.table]).fetchone() or (0, 1)
    wanted = max(SAMPLED_PAGES, SAMPLED_OF_PIECE * size / CHUNK_BYTES)
    percent = min(100.0, 100.0 * wanted * of_page / max(1, size))
    asked = {"day": partition.day, "most": CHUNK_BYTES, "percent": percent}
    ends = [row[0] for row in connection.execute(statement(f"bounds_{partition.parent}"), asked).fetchall()]
    return [(low + 1, high) for low, high in pairwise([LOWEST, *ends[:-1], HIGHEST_ID])]


def measured(connection: Connection, partition: Partition, low: int, high: int) -> list[Stretch]:
    """A range; in halves, where it is far more than the sample showed."""
    asked = {"day": partition.day, "low": low, "high": high}
    rows = connection.execute(statement(f"measure_{partition.parent}"), asked).fetchall()
    if not rows:
        return []
    part = Stretch([Sums(*row[:-1]) for row in rows], frozenset.intersection(*(frozenset(row[-1]) for row in rows)))
    if part.low == part.high or part.size_with(ROW_BYTES[partition.parent]) <= 2 * CHUNK_BYTES:
        return [part]
    middle = (part.low + part.high) // 2
    return [*measured(connection, partition, part.low, middle), *measured(connection, partition, middle + 1, part.high)]

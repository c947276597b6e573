"""What the pipeline costs beside the plain ways to do the same, all in one run on one service."""

import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.peers.install import python
from bench.pipeline import past, plainly
from bench.pipeline.family import Spent, run
from bench.pipeline.jdbc import JAR
from bench.pipeline.live import Live, p99
from bench.pipeline.wire import Wire
from bench.rows import Row, Series
from bench.service import Service
from mqueue.core.conf import ROOT
from mqueue.core.linux import leash

MANAGE = [sys.executable, str(ROOT / "manage.py"), "pipeline"]
QUIET_S = 10.0
TURNS = 3  # of live traffic without and beside an archive
WARM = 5  # roll-ups in one session; the quickest counts
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scene:
    service: Service
    rows: int
    day: datetime.date
    say: Say

    def play(self) -> Iterator[Row]:
        self.say(f"making {self.rows} messages of {self.day}")
        past.make_messages(self.service, self.day, self.rows)
        yield from self.archive()
        self.say("making events")
        past.make_events(self.service, self.day)
        yield from self.roll_up()  # before there is more of today than DuckDB can see
        yield from self.beside_traffic()  # before PostgreSQL has to tidy up after replays
        yield from self.replay()

    def archive(self) -> Iterator[Row]:
        """Messages alone, so that everybody copies the same rows."""
        self.say("copying plainly")
        plain = self.child("bench.pipeline.plain", self.folder("plain"), self.day.isoformat())
        jdbc = self.by_jdbc() if JAR.exists() else None
        self.say("archiving")
        ours = self.verb("archive")
        title = "archive of messages, sorted, summed up on both sides, read back, with Spark's start"
        mine = rate(title, self.rows, ours)
        yield row("archive", "archive / plain copy", mine, rate("ADBC to pyarrow, unsorted", self.rows, plain), 0.5)
        theirs = rate("spark.read.jdbc, sorted", self.rows, jdbc) if jdbc else None
        yield row("archive_jdbc", "archive / spark.read.jdbc", mine, theirs, 1.6, "needs libpostgresql-jdbc-java")
        peak = one("peak memory of an archive run, two workers", ours.peak_bytes / 1e6)
        yield Row("archive_memory", "peak memory", "MB", peak, at_most=1600, group="pipeline")

    def beside_traffic(self) -> Iterator[Row]:
        """Of other days, each as long, and each between two times without: one p99 is a matter of luck."""
        with_, without = Series("live p99 beside"), Series("live p99 without, before and after, us")
        for turn in range(1, TURNS + 1):
            before = self.day - datetime.timedelta(days=turn)
            self.say(f"making {self.rows} messages of {before}")
            past.make_messages(self.service, before, self.rows, first=turn * 10**8)
            quiet = self.quiet()
            self.say("archiving, beside live traffic")
            with Live(self.service) as beside:  # and nobody who samples the run, in the same process as the caller
                subprocess.run(  # as the scheduler begins it, without a terminal
                    [*MANAGE, "archive"], env=self.service.env, cwd=ROOT, stdout=subprocess.DEVNULL, check=True,
                    start_new_session=True, preexec_fn=leash,
                )  # fmt: skip
            quiet += self.quiet()
            with_.values.append(1e6 * p99(beside.seconds))
            without.values.append(1e6 * p99(quiet))
            self.say(f"  p99 {with_.values[-1]:.0f} us beside, {without.values[-1]:.0f} without")
        yield Row("archive_live", "live p99", "ratio", with_, without, at_most=1.5, group="pipeline")

    def quiet(self) -> list[float]:
        self.say(f"live traffic, {QUIET_S:.0f} s without the archive")
        with Live(self.service) as live:
            time.sleep(QUIET_S)
        return live.seconds

    def by_jdbc(self) -> Spent:
        self.say("copying by JDBC")
        with Wire(self.service.conf.shard_urls[0]) as wire:
            return self.child("bench.pipeline.jdbc", self.folder("jdbc"), self.day.isoformat(), str(wire.port))

    def replay(self) -> Iterator[Row]:
        """Into the topics that they came from."""
        self.say("replaying")
        since = ["--namespace", past.NAMESPACE, "--from", self.day.isoformat()]
        until = ["--to", (self.day + datetime.timedelta(days=1)).isoformat()]
        again = one("replay of all, with Spark's start", self.rows / self.verb("replay", *since, *until).wall_s)
        self.say("enqueueing plainly")
        plain = one("enqueues of the same, 1,000 a request", plainly.enqueue(self.service, self.rows, keyed=False))
        yield row("replay", "replay / plain enqueue", again, plain, 0.6)
        self.say("enqueueing plainly, with keys")
        keyed = one("the same with idempotency keys", plainly.enqueue(self.service, self.rows, keyed=True))
        yield row("replay_keyed", "replay / enqueue with keys", again, keyed)

    def roll_up(self) -> Iterator[Row]:
        self.say("archiving the events")
        self.verb("archive")
        self.say("rolling up")
        ours = best(self.child("bench.pipeline.warm", str(WARM)))
        interpreter = python(self.say)
        self.say("rolling up by DuckDB")
        lake = self.service.env["LAKE_URL"]
        theirs = best(self.spent([interpreter, "bench/pipeline/duck.py", str(WARM), lake]))
        title = f"DuckDB on the same {3 * self.rows} rows, ms"
        yield Row("roll_up", "hourly roll-up", "ratio", one("hourly roll-up, warm, ms", 1e3 * ours),
                  one(title, 1e3 * theirs), at_most=2, group="pipeline")  # fmt: skip

    def folder(self, name: str) -> str:
        return str(self.service.folder / name)

    def verb(self, *arguments: str) -> Spent:
        return self.spent([*MANAGE, *arguments])

    def child(self, module: str, *arguments: str) -> Spent:
        return self.spent([sys.executable, "-m", module, *arguments])

    def spent(self, command: list[str]) -> Spent:
        found = run(command, self.service.env, str(ROOT), self.service.pid_of("postgres"))
        self.say(
            f"  {found.wall_s:.1f} s, CPU {found.own_s:.1f} s of its own and {found.postgres_s:.1f} s of PostgreSQL"
        )
        return found


def one(title: str, value: float) -> Series:
    return Series(title, [value])


def rate(title: str, rows: int, spent: Spent) -> Series:
    cpu = {"wall_s": spent.wall_s, "own_cpu_s": spent.own_s, "postgres_cpu_s": spent.postgres_s}
    return Series(f"rows a CPU-second, {title}", [rows / spent.cpu_s], details=cpu | {"peak_bytes": spent.peak_bytes})


def best(spent: Spent) -> float:
    return min(map(float, json.loads(spent.output.strip().splitlines()[-1])))


def row(  # noqa: PLR0917
    name: str, title: str, ours: Series, against: Series | None, at_least: float | None = None, missing: str = ""
) -> Row:
    """A ratio; where the other side is missing, what it needs."""
    mine = ours if against else None
    return Row(name, title, "ratio", mine, against, at_least, note="" if against else missing, group="pipeline")

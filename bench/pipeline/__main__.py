"""python -m bench.pipeline: the archive beside a plain copy and live traffic, replay beside plain enqueues."""

import argparse
import datetime
import json
import signal
import sys
import time
from pathlib import Path

from bench.machine import describe
from bench.pipeline import past
from bench.pipeline.family import Spent, run
from bench.pipeline.live import Live
from bench.service import Service
from mqueue.core.conf import ROOT
from pipeline.door import Door

BATCH = 1_000
MANAGE = [sys.executable, str(ROOT / "manage.py"), "pipeline"]
QUIET_S = 5.0


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service is stopped and its folder deleted
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline")
    parser.add_argument(
        "--rows", type=int, default=200_000, help="messages of 200 bytes, in two shards (default: 200000)"
    )
    parser.add_argument("--json", type=Path, help="keep the figures there")
    asked = parser.parse_args()
    with Service(shards=2) as service:
        service.env["LAKE_URL"] = str(service.folder / "lake")
        figures = measure(service, asked.rows)
    print(json.dumps({"machine": describe(), "rows": asked.rows, "figures": figures}, indent=2))
    if asked.json:
        asked.json.write_text(json.dumps({"rows": asked.rows, "figures": figures}, indent=2))


def measure(service: Service, rows: int) -> dict[str, float]:
    today = datetime.datetime.now(datetime.UTC).date()
    day = today - datetime.timedelta(days=3)
    say(f"making {rows} messages of {day}")
    past.make(service.conf, day, rows)
    postgres = service.pid_of("postgres")
    say("copying plainly")
    plain = run(
        [sys.executable, "-m", "bench.pipeline.plain", str(service.folder / "plain"), day.isoformat()],
        service.env, str(ROOT), postgres,
    )  # fmt: skip
    with Live(service) as quiet:
        time.sleep(QUIET_S)
    say("archiving, beside live traffic")
    with Live(service) as beside:
        archived = run([*MANAGE, "archive"], service.env, str(ROOT), postgres)
    say("verifying")
    verified = run([*MANAGE, "verify"], service.env, str(ROOT), postgres)
    found = archive_figures(rows, plain, archived) | {
        "verify, seconds": verified.wall_s,
        "live p99 without, ms": quiet.p99_ms(),
        "live p99 beside the archive, ms": beside.p99_ms(),
        "live p99 with / without": beside.p99_ms() / quiet.p99_ms(),
    }
    say("replaying")
    return found | replay_figures(service, rows, day, postgres) | usage_figures(service, postgres)


def archive_figures(rows: int, plain: Spent, archived: Spent) -> dict[str, float]:
    """The archive copies two events a message, too: they are rows like others, and smaller."""
    every = 3 * rows
    return {
        "plain copy of the messages, rows per CPU-second": rows / plain.cpu_s,
        "archive of messages and events, rows per CPU-second": every / archived.cpu_s,
        "archive, CPU-seconds of PostgreSQL": archived.postgres_s,
        "archive, CPU-seconds of Spark and Python": archived.own_s,
        "archive, seconds": archived.wall_s,
        "archive, peak memory in GB": archived.peak_bytes / 1e9,
    }


def replay_figures(service: Service, rows: int, day: datetime.date, postgres: int) -> dict[str, float]:
    some = min(rows, 100_000)
    command = [*MANAGE, "replay", "--namespace", "bench", "--from", day.isoformat(), "--max", str(some)]
    replayed = run([*command, "--into", "again"], service.env, str(ROOT), postgres)
    door = Door(service.conf.api.origin, service.conf.jwt_secret, "bench", "bench")
    body = json.dumps({"namespace": "bench", "topic": "plain", "body": "x" * (past.PAYLOAD - 2)}).encode()
    began = time.monotonic()
    for _ in range(some // BATCH):
        door.enqueue([body] * BATCH)
    plain = time.monotonic() - began
    return {
        "replay, messages a second, Spark's start included": some / replayed.wall_s,
        "plain enqueues, messages a second": some / plain,
        "replay / plain enqueues": plain / replayed.wall_s,
    }


def usage_figures(service: Service, postgres: int) -> dict[str, float]:
    say("rolling up")
    rolled = run([*MANAGE, "usage", "--all"], service.env, str(ROOT), postgres)
    return {"usage of everything, seconds": rolled.wall_s, "usage of everything, CPU-seconds": rolled.cpu_s}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

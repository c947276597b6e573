"""The raw limits of PostgreSQL: the same tables, on the same server, without a queue around them."""

import os
import subprocess
import tempfile
from contextlib import closing
from itertools import count
from typing import Any

from bench.child import LoadError, Sample, last_words, run
from bench.observe import Observer
from bench.service import Service
from launch import embedded

RUNS = count(1)
CLAIM_S, ROW_S = 0.0003, 0.000006  # what a claim takes, and each of its rows, at least
CLAIM_TOPIC = 10  # and the next ones, each of them new
# Ids ascend in each client, which suits the indexes better than random ones would.
MESSAGE = """\
INSERT INTO message (id, topic, day, priority, is_json, payload, payload_bytes)
VALUES (:id, 0, (now() AT TIME ZONE 'UTC')::date, 5, true, decode(repeat('78', 200), 'hex'), 200)"""
DELIVERY = """\
INSERT INTO delivery (id, topic, day, priority, due) VALUES (:id, 0, (now() AT TIME ZONE 'UTC')::date, 5, now())"""
NEXT = "\\set n :n + 1\n\\set id :first + :client_id * 10000000000 + :n\n"
PGBENCH = f"{NEXT}BEGIN;\n{MESSAGE};\n{DELIVERY};\nCOMMIT;\n"
MANY_TOPICS = "\\set topic random(1, :topics)\n" + PGBENCH.replace("(:id, 0,", "(:id, :topic,")
TIGHT = f"{NEXT}WITH logged AS (\n{MESSAGE}\n)\n{DELIVERY};\n"  # one round trip instead of four


def pgbench(service: Service, database: str, seconds: float, clients: int, sql: str = PGBENCH, **values: int) -> Sample:
    """Transactions of one message a second, prepared statements, so many clients; with values for the script."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(sql)
        script.flush()
        command = [str(embedded.psql_program().parent / "pgbench"), "-n", "-M", "prepared", "-c", str(clients)]
        command += ["-j", "1", "-T", str(max(1, round(seconds))), "-D", "n=0", "-D", f"first={first_id()}"]
        command += [word for name, value in values.items() for word in ("-D", f"{name}={value}")]
        return watched(service, database, [*command, "-f", script.name, database])


def watched(service: Service, database: str, command: list[str]) -> Sample:
    """Run pgbench, and observe it."""
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child,
        closing(Observer(service, database, child.pid)) as observer,
    ):
        assert child.stdout
        observer.begin()
        said = child.stdout.read()
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # its CPU time can still be read
        if ended and ended.si_status:
            raise LoadError(f"pgbench: {last_words(said)}")
        messages = int(said.rpartition("actually processed: ")[2].split()[0].partition("/")[0])
        rate = float(said.rpartition("tps = ")[2].split()[0])
        return Sample(rate, {"messages": messages}, observer.end(messages))


def copy(service: Service, database: str, seconds: float, **orders: Any) -> Sample:
    """Prebuilt rows into both tables by COPY, one connection, `batch` messages a transaction or 1,000."""
    return rows(service, database, work="copy", topic=1, seconds=seconds, **orders)


def cycle(service: Service, database: str, seconds: float, **orders: Any) -> Sample:
    """COPY, claim by UPDATE ... SKIP LOCKED and DELETE, 1,000 messages each, one connection."""
    return rows(service, database, work="cycle", topic=2, seconds=seconds, **orders)


def claim(service: Service, database: str, seconds: float, **orders: Any) -> Sample:
    """The second half of the cycle, with enough that waits."""
    batch = orders.get("batch", 1000)
    depth = round((seconds + 0.5) * batch / (CLAIM_S + ROW_S * batch))
    topic = CLAIM_TOPIC + next(RUNS)
    return rows(service, database, work="claim", topic=topic, seconds=seconds, depth=depth, **orders)


def rows(service: Service, database: str, **orders: Any) -> Sample:
    """One of the works of `bench.raw_load`."""
    spec = {"database": database, "first": first_id(), "batch": 1000, "payload": 200}
    return run(service, "bench.raw_load", spec | orders, database)


def first_id() -> int:
    """Where the ids of a measurement begin: above those of any before it in the same database."""
    return next(RUNS) * 10**13


def redis(service: Service, seconds: float, connections: int, pipeline: int) -> Sample:
    """Commands a second of Redis alone: adding to sorted sets and popping from them, so many in one round trip."""
    socket = str(service.conf.embedded.sockets / "valkey.sock")
    orders = {"socket": socket, "seconds": seconds, "connections": connections, "pipeline": pipeline}
    return run(service, "bench.redis_load", orders, service.conf.shard_urls[0])

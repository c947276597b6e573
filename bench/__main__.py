"""python -m bench: a service of its own in a temporary folder, a few measurements, and the raw limit beside them.

Payloads have 200 bytes; the clients run on the same cores. The machine is shared, so compare figures of one run.
"""

import argparse
import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

import uvloop

from bench.client import Connection
from launch import embedded
from mqueue.core import conf as configuration
from mqueue.core import tokens
from mqueue.core.conf import ROOT, Conf

MESSAGE = {"namespace": "bench", "topic": "t", "body": "x" * 198}
ONE, TAKE_100 = json.dumps(MESSAGE).encode(), b'{"namespace": "bench", "topic": "t", "limit": 100}'
TAKE_ONE = b'{"namespace": "bench", "topic": "t"}'
LATENCY_RATE = 100
BATCH = json.dumps([MESSAGE] * 1000).encode()
RAW = """\
\\set id random(1, 9000000000000000)
BEGIN;
INSERT INTO message (id, topic, day, priority, is_json, payload, payload_bytes)
VALUES (:id, 0, (now() AT TIME ZONE 'UTC')::date, 5, true, decode(repeat('78', 200), 'hex'), 200);
INSERT INTO delivery (id, topic, day, priority, due) VALUES (:id, 0, (now() AT TIME ZONE 'UTC')::date, 5, now());
COMMIT;
"""
Work = Callable[[Connection], Awaitable[int]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement (default: 5)")
    seconds = parser.parse_args().seconds
    folder = Path(tempfile.mkdtemp(prefix="mqueue-bench-"))
    folder.chmod(0o755)
    with socket.socket() as probe, socket.socket() as other:
        for each in (probe, other):
            each.bind(("127.0.0.1", 0))
        port, metrics_port = probe.getsockname()[1], other.getsockname()[1]
    secret = secrets.token_hex(32)
    own = {
        "MQUEUE_DATA": str(folder / "data"),
        "MQUEUE_PORT": str(port),
        "METRICS_PORT": str(metrics_port),
        "JWT_SECRET": secret,
        "MQUEUE_SHARDS": "1",
    }
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | own  # no server of the caller's
    conf = configuration.read(own)
    service = subprocess.Popen(
        [sys.executable, "-m", "launch", "run"], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        assert service.stdout
        if not any("Ctrl-C stops everything" in line for line in service.stdout):
            sys.exit("bench: the service did not start; its messages are above")
        results = uvloop.run(measure(conf, seconds))
        results["raw: pgbench, one row into each table"] = pgbench(conf, seconds)
        report(results)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


async def measure(conf: Conf, seconds: float) -> dict[str, float]:
    token = tokens.make(conf.jwt_secret, "bench", ["*"], ["*"], 3600)
    rows: list[tuple[str, Work, int]] = [
        ("enqueue, one a request, 64 connections", enqueue_one, 64),
        ("enqueue, 1,000 a request, 2 connections", enqueue_batch, 2),
        ("dequeue and ack, one a request, 64 connections", take_and_ack(TAKE_ONE, 1), 64),
        ("dequeue and ack, 100 a request, 4 connections", take_and_ack(TAKE_100, 100), 4),
    ]
    results = {}
    for name, work, connections in rows:
        print(f"bench: {name} …", file=sys.stderr, flush=True)
        results[name] = await rate(conf.api.port, token, work, connections, seconds)
    print(f"bench: latency at {LATENCY_RATE} messages a second …", file=sys.stderr, flush=True)
    results |= await latency(conf.api.port, token, seconds)
    print("bench: how late delayed messages come …", file=sys.stderr, flush=True)
    return results | await lateness(conf.api.port, token, seconds)


async def rate(port: int, token: str, work: Work, connections: int, seconds: float) -> float:
    """Messages a second."""
    opened = [await Connection.open(port, token) for _ in range(connections)]
    await work(opened[0])
    began = time.perf_counter()

    async def run(connection: Connection) -> int:
        done = 0
        while time.perf_counter() - began < seconds:
            done += await work(connection)
        return done

    done = sum(await asyncio.gather(*(run(connection) for connection in opened)))
    took = time.perf_counter() - began
    for connection in opened:
        connection.close()
    return done / took


async def latency(port: int, token: str, seconds: float) -> dict[str, float]:
    """From the time at which a message should have been sent to its arrival at a consumer that waits, in microseconds.

    Sent on schedule whether or not the answers keep up, so a stall counts for all that it delays.
    """
    found: list[float] = []
    topic = {"namespace": "bench", "topic": "latency"}
    count = int(LATENCY_RATE * seconds)

    async def consume() -> None:
        connection = await Connection.open(port, token)
        poll = json.dumps(topic | {"wait_ms": 2000}).encode()
        while len(found) < count:
            leased = await connection.post("/dequeue", poll)
            now = time.perf_counter()
            found.extend(now - message["body"] for message in json.loads(leased))
            if leased != b"[]":
                await connection.post("/ack", leased)
        connection.close()

    async def send(connection: Connection, at: float) -> None:
        await connection.post("/enqueue", json.dumps(topic | {"body": at}).encode())

    consumers = [asyncio.create_task(consume()) for _ in range(4)]
    producers = [await Connection.open(port, token) for _ in range(16)]
    await asyncio.sleep(1)
    began, sending = time.perf_counter(), []
    for n in range(count):
        at = began + n / LATENCY_RATE
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        sending.append(asyncio.create_task(send(producers[n % len(producers)], at)))
    await asyncio.gather(*sending, *consumers)
    found.sort()
    return {
        f"enqueue to a waiting dequeue in us, p{p}": 1e6 * found[min(len(found) - 1, len(found) * p // 100)]
        for p in (50, 99)
    }


async def lateness(port: int, token: str, seconds: float) -> dict[str, float]:
    """From the time for which a message was scheduled to its arrival at a consumer that waits, in microseconds."""
    topic = {"namespace": "bench", "topic": "later"}
    producer, consumer = await Connection.open(port, token), await Connection.open(port, token)
    poll = json.dumps(topic | {"wait_ms": 5000}).encode()
    found = []
    for n in range(int(10 * seconds)):
        await producer.post("/enqueue", json.dumps(topic | {"body": n, "delay_ms": 50 + n % 50}).encode())
        leased = await consumer.post("/dequeue", poll)
        now = time.time()
        (message,) = json.loads(leased)
        found.append(now - datetime.fromisoformat(message["deliver_after"]).timestamp())
        await consumer.post("/ack", leased)
    found.sort()
    return {
        f"late after its time in us, p{p}": 1e6 * found[min(len(found) - 1, len(found) * p // 100)] for p in (50, 99)
    }


async def enqueue_one(connection: Connection) -> int:
    await connection.post("/enqueue", ONE)
    return 1


async def enqueue_batch(connection: Connection) -> int:
    await connection.post("/enqueue", BATCH)
    return 1000


def take_and_ack(wanted: bytes, count: int) -> Work:
    async def work(connection: Connection) -> int:
        leased = await connection.post("/dequeue", wanted)
        if leased == b"[]":
            raise RuntimeError("the topic ran empty: give the enqueues before it more time")
        await connection.post("/ack", leased)
        return count

    return work


def pgbench(conf: Conf, seconds: float) -> float:
    print("bench: pgbench …", file=sys.stderr, flush=True)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(RAW)
        script.flush()
        command = [embedded.psql_program().parent / "pgbench", "-n", "-M", "prepared", "-c", "32", "-j", "1"]
        command += ["-T", str(max(1, int(seconds))), "-f", script.name, "-U", "mqueue"]
        command += ["-h", str(conf.embedded.sockets), "mqueue_shard_0"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return float(done.stdout.rpartition("tps = ")[2].split()[0])


def report(results: dict[str, float]) -> None:
    print(f"\nmessages a second, {os.cpu_count()} cores, 1 API worker, 1 shard, fsync on")
    for name, value in results.items():
        print(f"  {name:<48} {value:>10,.0f}")


if __name__ == "__main__":
    main()

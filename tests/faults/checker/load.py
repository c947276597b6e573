"""python -m tests.faults.checker.load: one process of producers, consumers and meddlers, until it is told to stop.

What to do comes as a line of JSON, then `drain`, then `stop`. It prints `ready` when its first calls are on their way.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvloop

from tests.faults.checker.consume import consume
from tests.faults.checker.meddle import meddle
from tests.faults.checker.produce import produce
from tests.faults.checker.record import Recorder
from tests.faults.checker.worker import DRAIN, STOP, Worker

PRODUCERS, CONSUMERS, MEDDLERS = 3, 10, 1
FLUSH_EVERY_S = 0.5


async def run(spec: dict[str, Any]) -> None:
    recorder = Recorder(Path(spec.pop("folder")), spec["process"])
    worker = Worker(recorder=recorder, **spec)
    orders = asyncio.create_task(_obey(worker))
    roles = [produce(worker, n, worker.rate / PRODUCERS) for n in range(PRODUCERS)]
    roles += [consume(worker, n) for n in range(CONSUMERS)]
    roles += [meddle(worker, n) for n in range(MEDDLERS)]
    flushing = asyncio.create_task(_flush(recorder))
    print("ready", flush=True)
    try:
        async with asyncio.TaskGroup() as group:
            for role in roles:
                group.create_task(role)
    finally:
        orders.cancel()
        flushing.cancel()
        recorder.close()


async def _obey(worker: Worker) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while worker.phase != STOP:
        line = (await reader.readline()).decode().strip()
        worker.phase = line if line == DRAIN else STOP  # an end of file too: whoever started us is gone
    worker.stopped.set()


async def _flush(recorder: Recorder) -> None:
    while True:
        await asyncio.sleep(FLUSH_EVERY_S)
        recorder.flush()


if __name__ == "__main__":
    uvloop.run(run(json.loads(sys.stdin.readline())))

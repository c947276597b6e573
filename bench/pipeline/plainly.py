"""The messages of the past, enqueued by a plain client: 1,000 a request, made beforehand, one after the other."""

import itertools
import json
import time
import uuid

from bench.pipeline import past
from bench.service import Service
from pipeline.door import Door

BATCH = 1_000
MADE = 100  # requests that are made before the clock runs, and again when they are used up


def enqueue(service: Service, rows: int, *, keyed: bool) -> float:
    """Messages a second, the making of the requests not counted."""
    door = Door(service.conf.api.origin, service.conf.jwt_secret, past.NAMESPACE, "bench")
    numbers = itertools.count()
    run, taken, sent = uuid.uuid4().hex[:12], 0.0, 0
    while sent < rows:
        requests = [[message(run, next(numbers), keyed=keyed) for _ in range(BATCH)] for _ in range(MADE)]
        began = time.monotonic()
        for request in requests[: -(-(rows - sent) // BATCH)]:
            door.enqueue(request)
            sent += BATCH
        taken += time.monotonic() - began
    door.close()
    return sent / taken


def message(run: str, number: int, *, keyed: bool) -> bytes:
    plain = {"namespace": past.NAMESPACE, "topic": f"t{number % past.TOPICS}", "body": "x" * (past.PAYLOAD - 2),
             "headers": {"replay_count": "1"}}  # fmt: skip
    return json.dumps(plain | ({"idempotency_key": f"plain:{run}:{number}"} if keyed else {})).encode()

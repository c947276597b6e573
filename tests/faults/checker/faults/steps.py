"""A process that dies between two steps, at a point that has a name (`points/sitecustomize.py`)."""

import time
from collections.abc import Iterator
from random import Random

from tests.faults.checker.faults.catalogue import Hold, fault
from tests.faults.checker.points.sitecustomize import POINTS
from tests.faults.checker.stage import Stage

COMES_WITHIN_S, PROVOKED_EVERY_S = 4.0, 1.0
# Topics that all have a whole head are filled no more, so these heads are made cold, as the service does by itself.
COOL = """EVAL "for _, key in ipairs(redis.call('KEYS', 'mq:*:[trsk]:*')) do redis.call('UNLINK', key) end" 0"""
PROVOKED = ("ahead", "fill")
WORDS = {
    "commit-push": "after a commit, before Redis hears of the messages",
    "key-message": "after an idempotency key is taken, before its message is added",
    "message-key": "after a message is added, before its key is confirmed",
    "pop-lease": "after a pop from Redis, before the lease in PostgreSQL",
    "lease-reply": "after the lease, before the answer",
    "settle-reply": "after a settle, before the answer",
    "retry-push": "after a failed delivery is to be retried, before Redis hears of it",
    "fill": "with a head read, before it is in Redis",
    "ahead": "with what is due soon read, before it is in Redis",
    "sync-push": "after a buffered record is synced, before it is pushed",
    "push-reply": "after a buffered record is pushed, before the answer",
    "flush-commit": "before buffered records are committed",
    "commit-trim": "after buffered records are committed, before they leave the buffer",
}


def _dies(point: str) -> None:
    @fault(f"dies-{point}")
    def dies(stage: Stage, rng: Random) -> Iterator[Hold]:
        file = stage.points / point
        file.touch()
        began = provoked = time.monotonic()
        while file.exists() and time.monotonic() < began + COMES_WITHIN_S:
            if point in PROVOKED and time.monotonic() >= provoked:
                stage.redis.tell(COOL)
                provoked += PROVOKED_EVERY_S
            time.sleep(0.01)
        is_hit = not file.exists()
        file.unlink(missing_ok=True)
        yield Hold("a process" if is_hit else "nobody came there", 0.3, is_hit)

    dies.__doc__ = f"SIGKILL of whoever is {WORDS[point]}"


for _point in POINTS:
    _dies(_point)

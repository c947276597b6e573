"""What becomes of a failed delivery. nack, a lapsed lease, a ttl that is over: one rule, applied in one place."""

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from mqueue.core.messages import Retry

Reason = Literal["max_retries", "expired", "rejected"]


class Failure(Struct, frozen=True):
    """One delivery that did not end in an ack."""

    attempt: int
    max_retries: int
    retry: Retry
    expiry: datetime | None
    lapsed_at: datetime | None = None  # the deadline of a lease that nobody settled
    delay_ms: int | None = None  # what the consumer asked for, instead of the policy
    rejected: bool = False
    waiting: bool = False  # nobody held it: only its ttl is over


def decide(failure: Failure, now: datetime, chance: float) -> datetime | Reason:
    """When it is due again, or why it is dead. `chance` is random, from 0 to 1."""
    if failure.rejected:
        return "rejected"
    if not failure.waiting and failure.attempt > failure.max_retries:
        return "max_retries"
    if failure.waiting or (failure.expiry is not None and failure.expiry <= now):
        return "expired"
    if failure.lapsed_at is not None:
        return failure.lapsed_at
    delay_ms = backoff_ms(failure.retry, failure.attempt, chance) if failure.delay_ms is None else failure.delay_ms
    return now + timedelta(milliseconds=delay_ms)


def backoff_ms(retry: Retry, attempt: int, chance: float) -> float:
    """The pause after the n-th failed attempt."""
    growths: dict[str, int] = {"exponential": 1 << (attempt - 1), "linear": attempt, "constant": 1}
    return min(retry.base_ms * growths[retry.strategy], retry.max_ms) * (1 - retry.jitter * chance)

"""When a database that does not answer is no longer asked."""

import pytest

from shards.breaker import Breaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(clock)


def test_it_opens_at_the_third_failure_in_a_row(breaker: Breaker) -> None:
    assert [breaker.failed("lost") for _ in range(3)] == [False, False, True]
    assert breaker.is_open
    assert breaker.reason == "lost"


def test_a_success_in_between_starts_the_count_anew(breaker: Breaker) -> None:
    for _ in range(10):
        breaker.failed("lost")
        breaker.failed("lost")
        breaker.succeeded()
    assert not breaker.is_open


def test_a_refused_connection_opens_it_at_once(breaker: Breaker) -> None:
    assert breaker.failed("refused", connecting=True)


def test_a_refused_connection_does_not_while_others_work(breaker: Breaker, clock: Clock) -> None:
    breaker.succeeded()
    clock.now += 0.4
    assert not breaker.failed("too many connections", connecting=True)
    clock.now += 0.2
    assert breaker.failed("refused", connecting=True)


def test_only_the_failure_that_opened_it_says_so(breaker: Breaker) -> None:
    assert breaker.failed("refused", connecting=True)
    assert not breaker.failed("refused", connecting=True)


def test_closed_again_it_forgets(breaker: Breaker, clock: Clock) -> None:
    breaker.failed("refused", connecting=True)
    breaker.close()
    clock.now += 10
    assert not breaker.is_open
    assert not breaker.reason
    assert not breaker.failed("lost")

"""When a database that does not answer is no longer asked."""

from shards.breaker import Breaker


def test_it_opens_at_the_third_failure_in_a_row() -> None:
    breaker = Breaker()
    assert [breaker.failed("lost") for _ in range(3)] == [False, False, True]
    assert breaker.is_open
    assert breaker.reason == "lost"


def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = Breaker()
    for _ in range(10):
        breaker.failed("lost")
        breaker.failed("lost")
        breaker.succeeded()
    assert not breaker.is_open


def test_a_failure_without_doubt_opens_it_at_once_and_says_so_once() -> None:
    breaker = Breaker()
    assert breaker.failed("refused", at_once=True)
    assert not breaker.failed("refused", at_once=True)


def test_closed_again_it_forgets() -> None:
    breaker = Breaker()
    breaker.failed("refused", at_once=True)
    breaker.close()
    assert not breaker.is_open
    assert not breaker.reason
    assert not breaker.failed("lost")

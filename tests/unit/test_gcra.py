"""The arithmetic of buckets, without a clock and without a server."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqueue.core.gcra import MINUTE_US, Ask, Bucket, OwnShare, Refusal, per_minute, per_second

QUOTAS = st.one_of(st.integers(1, 50), st.integers(50, 10**6), st.integers(10**6, 10**15))


def run(bucket: Bucket, arrivals: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """What of the wishes, each some time after the one before, is admitted; all of a wish or nothing."""
    now, full_at, admitted = 1.8e15, 0.0, []
    for pause_us, wanted in arrivals:
        now += pause_us
        if bucket.room(full_at, now) >= wanted:
            full_at = max(full_at, now) + wanted * bucket.each_us
            admitted.append((now, wanted))
    return admitted


@given(QUOTAS, st.lists(st.tuples(st.floats(0, 20e6), st.floats(0, 0.2)), max_size=200))
def test_no_minute_admits_more_than_a_tenth_above_its_quota(quota: int, wishes: list[tuple[float, float]]) -> None:
    admitted = run(per_minute(quota), [(pause, max(1, int(part * quota))) for pause, part in wishes])
    for began, _ in admitted:
        total = sum(count for at, count in admitted if began <= at < began + MINUTE_US)
        assert total <= max(quota, 1.1 * quota) * (1 + 1e-6)


@pytest.mark.parametrize("quota", [1, 7, 60, 6_000, 10**6])
def test_who_never_stops_asking_gets_the_whole_quota(quota: int) -> None:
    bucket = per_minute(quota)
    steps = 20_000
    admitted = run(bucket, [(MINUTE_US / steps, max(1, quota // steps))] * 3 * steps)
    last = sum(count for at, count in admitted if at > admitted[-1][0] - MINUTE_US)
    assert last >= math.floor(0.98 * quota)


@given(QUOTAS)
def test_a_tenth_comes_at_once_and_no_more(quota: int) -> None:
    bucket = per_minute(quota)
    assert bucket.holds == max(1, quota // 10) or abs(bucket.holds / (quota / 10) - 1) < 1e-6
    assert bucket.room(0.0, 1e15) == bucket.holds


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_the_wait_is_exact(quota: int, wanted: int) -> None:
    bucket = per_minute(quota)
    wanted = min(wanted, bucket.holds)
    now = 1.8e15
    full_at = now + bucket.full_us
    wait_us = bucket.wait_us(full_at, now, wanted)
    assert bucket.room(full_at, now + wait_us + 1) >= wanted
    assert bucket.room(full_at, now + wait_us - 2) < wanted


@pytest.mark.parametrize(("quota", "ahead"), [(5_999, 0), (6_000, 1), (60_000, 10), (6_000_000, 1_000)])
def test_a_process_takes_a_hundredth_of_a_second_ahead_and_below_a_hundred_a_second_nothing(
    quota: int, ahead: int
) -> None:
    assert per_minute(quota).ahead == ahead


def test_a_rate_has_its_own_capacity() -> None:
    bucket = per_second(2.5, 100)
    assert (bucket.holds, bucket.each_us) == (100, 400_000)


def taken(alone: OwnShare, asks: list[Ask], processes: int, now: float) -> int:
    answer = alone.take(asks, processes, now)
    return 0 if isinstance(answer, Refusal) else answer[0]


@pytest.mark.parametrize("processes", [1, 2, 5])
@pytest.mark.parametrize("wanted", [1, 60])
def test_all_processes_alone_stay_within_the_whole(processes: int, wanted: int) -> None:
    """Each begins with nothing, and gets its part of the rate."""
    bucket = per_minute(600)
    shares = [OwnShare() for _ in range(processes)]
    ask = [Ask("q", bucket, wanted, wanted)]
    admitted = 0
    for tick in range(6_000):  # of ten milliseconds
        admitted += sum(taken(share, ask, processes, tick * 10_000.0) for share in shares)
    assert admitted <= 660
    assert admitted >= 480


def test_what_one_ask_refuses_takes_nothing_from_the_others() -> None:
    alone = OwnShare()
    few, many = Ask("few", per_minute(60), 1, 1), Ask("many", per_minute(60_000), 1, 1)
    assert isinstance(alone.take([many, few], 1, 0.0), Refusal)
    refusal = alone.take([many, few], 1, 10e6)
    assert refusal == [1, 1]
    for _ in range(5):
        alone.take([few], 1, 10e6)
    refused = alone.take([many, few], 1, 10e6)
    assert isinstance(refused, Refusal)
    assert refused.ask == 1
    assert alone.take([many], 1, 10e6) == [1]


def test_what_is_given_back_can_be_taken_again() -> None:
    alone, bucket = OwnShare(), per_minute(60)
    alone.take([Ask("q", bucket, 1, 1)], 1, 0.0)
    assert alone.take([Ask("q", bucket, 6, 6)], 1, 60e6) == [6]
    assert isinstance(alone.take([Ask("q", bucket, 1, 1)], 1, 60e6), Refusal)
    alone.take([Ask("q", bucket, -6, 0)], 1, 60e6)
    assert alone.take([Ask("q", bucket, 6, 6)], 1, 60e6) == [6]

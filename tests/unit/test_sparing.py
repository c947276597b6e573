"""How often a look at everything is made."""

import time

import pytest

from daemons.sparing import SHARE, Sparing


def test_a_cheap_look_is_made_at_its_pace_and_a_dear_one_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    looks = Sparing(5.0)
    assert looks.is_due
    with looks.look():
        now += 0.01
    assert not looks.is_due
    now = 105.0
    assert looks.is_due
    with looks.look():
        now += 2.0
    now += SHARE * 2.0 - 0.1
    assert not looks.is_due
    now += 0.2
    assert looks.is_due


def test_a_look_that_fails_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    looks = Sparing(0.0)
    with pytest.raises(ValueError), looks.look():
        now += 1.0
        raise ValueError
    now += SHARE - 0.1
    assert not looks.is_due

"""The life of messages, in any order that Hypothesis thinks of, over HTTP against the running service; a model beside
it says what every answer has to be. Time does not pass by itself: what is scheduled lies an hour ahead, and a lease
ends when its deadline is set to now, whereupon a lease daemon looks.

`MQUEUE_LIVES=1000` goes on for longer than the 60 lives of a usual run.
"""

import asyncio
import os
import secrets
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from daemons.leases import LeaseDaemon
from mqueue.core import conf as configuration
from mqueue.engine.hot import Hot
from shards.cluster import Cluster
from tenants.snapshot import DEFAULTS
from tests.acceptance.calls import dead_letters, depth, events_of, get, look, settle
from tests.acceptance.conftest import Services
from tests.acceptance.life import DEAD, DELETED, LEASED, Message, Model
from tests.service import Service

LIVES, STEPS = int(os.environ.get("MQUEUE_LIVES", "60")), 40
HOUR_MS = 3_600_000
TOPIC = "t"
priorities, picks = st.integers(0, 2), st.integers(0, 1_000)


class Clockwork:
    """Ends leases at once, beside the service's own daemons."""

    def __init__(self, service: Service) -> None:
        self._conf = configuration.read(service.env)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._cluster = Cluster(self._conf)
        self._hot = Hot(self._conf, self._cluster)
        self._run(self._open())

    async def _open(self) -> None:
        await self._cluster.open()
        await self._hot.open(listen=False)
        for shard in self._cluster.shards:
            await self._hot[shard].clock.measure()

    def set_to_now(self, namespace: str, message_id: int, column: str) -> None:
        shard = self._cluster.reader_of_topic(namespace, TOPIC)
        overdue = f"SELECT id FROM delivery WHERE id = %s AND {column} <= now()"
        with psycopg.connect(self._conf.shard_urls[shard.number or 0], autocommit=True) as connection:
            connection.execute(f"UPDATE delivery SET {column} = now() WHERE id = %s", [message_id])  # type: ignore[arg-type]
            while connection.execute(overdue, [message_id]).fetchone():  # type: ignore[arg-type]
                self._run(LeaseDaemon(shard, self._hot[shard], lambda _: DEFAULTS).run_once())

    def close(self) -> None:
        self._run(self._hot.close())
        self._run(self._cluster.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)


class Life(RuleBasedStateMachine):
    http: httpx.Client
    clockwork: Clockwork

    def __init__(self) -> None:
        super().__init__()
        self.namespace = f"life-{secrets.token_hex(6)}"
        self.model = Model()

    def chosen(self, pick: int) -> Message:
        return self.model.messages[pick % len(self.model.messages)]

    def is_told(self, answer: httpx.Response, status: int, word: str) -> None:
        told = answer.json()
        assert (answer.status_code, told.get("state") or told.get("code")) == (status, word), told

    @rule(wishes=st.lists(st.tuples(priorities, st.integers(0, 2), st.booleans()), min_size=1, max_size=4))
    def enqueue(self, wishes: list[tuple[int, int, bool]]) -> None:
        batch = [
            {
                "namespace": self.namespace, "topic": TOPIC, "body": n, "priority": priority, "max_retries": retries,
                "delay_ms": HOUR_MS if later else 0, "retry": {"base_ms": HOUR_MS, "jitter": 0},
            }
            for n, (priority, retries, later) in enumerate(wishes)
        ]  # fmt: skip
        answer = self.http.post("/enqueue", json=batch)
        assert answer.status_code == 200, answer.text
        moment = self.model.now()
        for number, (priority, retries, later) in zip(answer.json(), wishes, strict=True):
            self.model.add(number, priority, retries, later=later, moment=moment)

    @rule(limit=st.integers(1, 4))
    def dequeue(self, limit: int) -> None:
        found = get(self.http, self.namespace, TOPIC, limit=limit, visibility_ms=HOUR_MS)
        expected = self.model.ready()[:limit]
        assert [one["id"] for one in found] == [message.id for message in expected]
        for one, message in zip(found, expected, strict=True):
            self.model.hand_out(message, one["receipt"])
            assert (one["attempt"], one["priority"]) == (message.attempts, message.priority)
            assert one["max_retries"] == message.max_retries

    @precondition(lambda self: self.model.receipts)
    @rule(
        pick=picks, recent=st.booleans(), verb=st.sampled_from(("ack", "nack", "extend", "release")),
        later=st.booleans(), dead=st.booleans(),
    )  # fmt: skip
    def settle_by_receipt(self, pick: int, recent: bool, verb: str, later: bool, dead: bool) -> None:
        known = self.model.receipts
        receipt = known[-1 - pick % min(3, len(known))] if recent else known[pick % len(known)]
        status, word = self.model.settle(receipt, verb, later=later, dead=dead)
        place = {"id": receipt.message.id, "namespace": self.namespace, "topic": TOPIC, "receipt": receipt.text}
        self.is_told(settle(self.http, verb, place, **self._more(verb, later, dead)), status, word)

    @precondition(lambda self: self.model.messages)
    @rule(pick=picks, verb=st.sampled_from(("ack", "nack", "extend", "release")), later=st.booleans())
    def settle_without_receipt(self, pick: int, verb: str, later: bool) -> None:
        message = self.chosen(pick)
        status, word = 404, "not_leased"
        if message.lease:
            status, word = self.model.settle(message.lease, verb, later=later, dead=False)
        place = {"id": message.id, "namespace": self.namespace, "topic": TOPIC}
        self.is_told(settle(self.http, verb, place, **self._more(verb, later, False)), status, word)

    def _more(self, verb: str, later: bool, dead: bool) -> dict[str, Any]:
        if verb == "extend":
            return {"visibility_ms": HOUR_MS}
        return {} if verb != "nack" else ({} if later else {"delay_ms": 0}) | ({"dead": True} if dead else {})

    @precondition(lambda self: self.model.counts()[LEASED])
    @rule(pick=picks)
    def lapse(self, pick: int) -> None:
        leased = [message for message in self.model.messages if message.state == LEASED]
        message = leased[pick % len(leased)]
        self.clockwork.set_to_now(self.namespace, message.id, "until")
        self.model.lapse(message)

    @precondition(lambda self: any(message.waits for message in self.model.messages))
    @rule(pick=picks)
    def expire(self, pick: int) -> None:
        waiting = [message for message in self.model.messages if message.waits]
        message = waiting[pick % len(waiting)]
        self.clockwork.set_to_now(self.namespace, message.id, "expiry")
        self.model.expire(message)

    @precondition(lambda self: self.model.messages)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        message = self.chosen(pick)
        place = {"namespace": self.namespace, "topic": TOPIC}
        self.is_told(self.http.delete(f"/messages/{message.id}", params=place), *self.model.cancel(message))

    @precondition(lambda self: self.model.messages)
    @rule(pick=picks, priority=st.none() | priorities, when=st.sampled_from((None, "now", "later")))
    def move(self, pick: int, priority: int | None, when: str | None) -> None:
        if priority is None and when is None:
            when = "now"
        message = self.chosen(pick)
        wish: dict[str, Any] = {} if priority is None else {"priority": priority}
        wish |= {"delay_ms": 0 if when == "now" else HOUR_MS} if when else {}
        answer = self.http.patch(f"/messages/{message.id}", json={"namespace": self.namespace, "topic": TOPIC} | wish)
        self.is_told(answer, *self.model.move(message, priority, when=when))

    @precondition(lambda self: self.model.messages)
    @rule(pick=picks, delete=st.booleans())
    def replay_or_delete(self, pick: int, delete: bool) -> None:
        dead = [message for message in self.model.messages if message.state == DEAD]
        message = dead[pick % len(dead)] if dead and pick % 4 else self.chosen(pick)
        choice = {"namespace": self.namespace, "topic": TOPIC, "id": message.id}
        if delete:
            assert self.http.post("/dlq/delete", json=choice).json() == {"deleted": self.model.delete(message)}
        else:
            assert self.http.post("/dlq/replay", json=choice).json() == {"replayed": self.model.replay(message)}

    @precondition(lambda self: self.model.messages)
    @rule(pick=picks)
    def look_back(self, pick: int) -> None:
        message = self.chosen(pick)
        told = [event["event"] for event in events_of(self.http, message.id, self.namespace)]
        assert [event for event in told if event != "deleted"] == message.events
        answer = look(self.http, message.id, self.namespace)
        assert answer.status_code == (404 if message.state == DELETED else 200)
        if message.state != DELETED:
            assert (answer.json()["state"], answer.json()["attempts"]) == (message.state, message.attempts)

    @invariant()
    def everything_is_shown_as_it_is(self) -> None:
        if not self.model.messages:
            return
        assert depth(self.http, self.namespace) == self.model.counts()
        place = {"namespace": self.namespace, "topic": TOPIC, "state": "ready"}
        shown = self.http.get("/messages", params=place).json()
        assert [one["id"] for one in shown] == [message.id for message in self.model.ready()]
        dead = sorted(message.id for message in self.model.messages if message.state == DEAD)
        assert [one["id"] for one in dead_letters(self.http, self.namespace)] == dead


@pytest.fixture
def clockwork(services: Services) -> Iterator[Clockwork]:
    clockwork = Clockwork(services["fast lane"])
    yield clockwork
    clockwork.close()


@pytest.mark.timeout(3600 if "MQUEUE_LIVES" in os.environ else 120)
def test_any_life_of_messages_is_as_the_model_says(services: Services, clockwork: Clockwork) -> None:
    with services["fast lane"].client() as http:

        def life() -> Life:
            one = Life()
            one.http, one.clockwork = http, clockwork
            return one

        run_state_machine_as_test(
            life,
            settings=settings(
                max_examples=LIVES,
                stateful_step_count=STEPS,
                derandomize="MQUEUE_LIVES" not in os.environ,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )

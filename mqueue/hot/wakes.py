"""Listen for topics in which something has arrived, on whichever process it was added."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ConnectionError  # noqa: A004  redis's own

from mqueue.hot.connection import AWAY_S
from mqueue.hot.sets import ERRORS

log = logging.getLogger(__name__)
ASK_EVERY_S, DEAF_AFTER_S = 1.0, 3.0
Wake = Callable[[int, int], None]  # topic, due in microseconds (0: now)


class Wakes:
    """One subscription a process. While it is down, `is_listening` says so, and lines look for themselves."""

    def __init__(self, client: Redis, channels: Sequence[str], wake: Wake) -> None:
        self._client, self._channels, self._wake = client, channels, wake
        self._listening: asyncio.Task[None] | None = None
        self.is_listening = self._closing = False

    def open(self) -> None:
        self._listening = asyncio.create_task(self._listen(), name="listen for arrivals")

    async def close(self) -> None:
        self._closing = True  # while it connects, redis-py takes a cancellation for its own
        while self._listening and not self._listening.done():
            self._listening.cancel()
            await asyncio.wait([self._listening], timeout=0.1)

    async def _listen(self) -> None:
        while not self._closing:
            try:
                async with self._client.pubsub(ignore_subscribe_messages=True) as subscription:
                    await subscription.subscribe(*self._channels)
                    self.is_listening = True
                    await self._hear(subscription)
            except ERRORS as error:
                log.warning("no word of arrivals: %s", type(error).__name__)
            except Exception:
                log.exception("listening for arrivals failed")
            self.is_listening = False
            await asyncio.sleep(AWAY_S)

    async def _hear(self, subscription: Any) -> None:
        """For as long as there is somebody at the other end. A connection that died without a word, as when a node
        loses its power, looks like one on which nothing is said: so it is asked now and then."""
        heard_at = time.monotonic()
        while True:
            said = await subscription.parse_response(block=False, timeout=ASK_EVERY_S)
            if said is not None:
                heard_at = time.monotonic()
                if said[0] == "message":
                    self._heard(said[2])
            elif time.monotonic() - heard_at > DEAF_AFTER_S:
                raise ConnectionError("nobody answers there")
            else:
                await subscription.ping()

    def _heard(self, text: str) -> None:
        for part in text.split():
            topic, _, due = part.partition(":")
            self._wake(int(topic), int(due))

"""Limits that all processes share: buckets of tokens, and room below a level. None where Redis is away."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from mqueue.core.gcra import Ask, Refusal
from mqueue.hot import keys
from mqueue.hot.connection import AWAY_S
from mqueue.hot.sets import ERRORS, script

log = logging.getLogger(__name__)


class Wish(NamedTuple):
    """Room below a level: as much as is wanted, or at least so much, or none; with a fresh count, if there is one."""

    name: str
    wanted: int
    least: int
    limit: int
    counted: int | None = None
    mark: int = 0


class Reserved(NamedTuple):
    """Below zero: too little room, as far as is known without a new count."""

    granted: int
    mark: int
    period: int


class Limits:
    def __init__(self, client: "Redis") -> None:
        self._prefix = keys.limits()
        self._keys = [f"{self._prefix}born", f"{self._prefix}processes"]
        self._take, self._reserve, self._settled, self._renew = (
            client.register_script(script(name)) for name in ("take", "reserve", "settled", "renew")
        )
        self._me = secrets.token_hex(8)
        self._has_met_it = False
        self._client = client
        self._finding: asyncio.Task[None] | None = None  # at work while Redis is away
        self.processes = 1  # that shared the limits when we asked last

    @property
    def is_away(self) -> bool:
        return self._finding is not None

    async def close(self) -> None:
        if self._finding:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)

    async def take(self, requests: Sequence[Sequence[tuple[Ask, int]]]) -> list[list[int] | Refusal] | None:
        """For each request: what each ask gets, or what refuses it. With an ask comes how many tokens to take ahead."""
        arguments: list[Any] = [f"{self._prefix}b:", self._me, int(self._has_met_it)]
        for asks in requests:
            arguments.append(len(asks))
            for ask, ahead in asks:
                arguments += (ask.name, ask.bucket.each_us, ask.bucket.full_us, ask.wanted, ask.least, ahead)
        answers = await self._call(self._take, self._keys, arguments)
        if answers is None:
            return None
        self._has_met_it = True
        self.processes, *found = answers
        return [Refusal(*one) if one[0] else one[1:] for one in found]

    async def reserve(self, wishes: Sequence[Wish]) -> list[Reserved] | None:
        arguments: list[Any] = [f"{self._prefix}l:"]
        for wish in wishes:
            arguments += (*wish[:4], "" if wish.counted is None else wish.counted, wish.mark)
        answers = await self._call(self._reserve, self._keys[:1], arguments)
        return None if answers is None else [Reserved(*one) for one in answers]

    async def settled(self, rooms: Sequence[tuple[str, int, int, int]]) -> None:
        """For each: its name, its period, how much was reserved, and how much of that was added."""
        await self._call(
            self._settled, self._keys[:1], [f"{self._prefix}l:", *(part for room in rooms for part in room)]
        )

    async def renew(self, name: str, period: int, reserved: int) -> int | None:
        """The period in which it is reserved from now on."""
        found = await self._call(self._renew, self._keys[:1], [f"{self._prefix}l:", name, period, reserved])
        return None if found is None else int(found)

    async def _call(self, run: Any, names: list[str], arguments: Sequence[Any]) -> Any:
        if self.is_away:
            return None
        try:
            return await run(keys=names, args=arguments)
        except ERRORS as error:
            if self._finding is None:
                log.warning("the limits are kept by each process alone: %s", type(error).__name__)
                self._finding = asyncio.create_task(self._find(), name="find Redis again")
            return None

    async def _find(self) -> None:
        """So that no request has to try whether it is back."""
        while True:
            await asyncio.sleep(AWAY_S)
            with contextlib.suppress(*ERRORS):
                await self._client.ping()
                log.warning("the limits are shared again")
                self._finding = None
                return

"""Connections to one database: a bounded pool, time limits on everything, a breaker, and a probe that heals it."""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, errors
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from mqueue.core.conf import Pool
from mqueue.core.errors import ControlUnavailable, ShardUnavailable, SlotMoved, Undecided
from shards.breaker import Breaker
from shards.lines import hanging_up_after, has_hung_up
from shards.tasks import end

log = logging.getLogger(__name__)

PROBE_EVERY_S = 0.25
LOOK_EVERY_S = 1.0
GRACE_S = 0.5
RETRY_AFTER_S = 1.0
# How long a peer that vanished without a word (a pulled cable) may go unnoticed.
KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5_000,
}
# The server's word that it cannot work now, as against an error in what we asked: classes 08 connection, 53 out of
# resources, 57 operator intervention, 58 system error; and 25006, a server that has become a standby.
UNWELL = ("lost", "08", "53", "57", "58", "25006")
# An immediate shutdown or a crash may end the session after its commit and before the answer.
UNDECIDED = ("lost", "57P")

# The answer of a server that is well: a lock timeout, a deadlock, a serialization failure, a transaction of ours in
# which we slept for too long. Nothing was done.
BUSY = ("55P03", "40", "25P03")
MOVED = "MQ001"  # raised by the trigger watch_slot: nothing was done
SETTINGS: LiteralString = (
    "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false), "
    "set_config('idle_in_transaction_session_timeout', %s, false), set_config('timezone', 'UTC', false)"
)

Row = tuple[Any, ...]
Connections = AsyncConnectionPool[AsyncConnection[Row]]


class Database:
    """One shard, or the control database, as this process reaches it."""

    def __init__(
        self,
        name: str,
        url: str,
        limits: Pool,
        number: int | None = None,
        deployment: Callable[[], uuid.UUID | None] = lambda: None,
    ) -> None:
        self.name = name
        self._number = number  # the shard that has to be found there, of this deployment, once that is known
        self._deployment = deployment
        self._in_use = 0
        self._last_success = 0.0
        self._url, self._limits = url, limits
        self._breaker = Breaker()
        self._pool: Connections | None = None
        self._down = asyncio.Event()
        self._tending: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()

    @property
    def number(self) -> int | None:
        """Of the shard; the control database has none."""
        return self._number

    @property
    def is_up(self) -> bool:
        return not self._breaker.is_open

    @property
    def trouble(self) -> str:
        """What is wrong, in words that may be shown to anybody; the log has the rest."""
        return self._breaker.reason

    async def open(self) -> None:
        """Does not wait for the server: one that is down now is found when it comes back."""
        self._pool = await self._make_pool()
        self._tending = asyncio.create_task(self._tend(), name=f"tend {self.name}")

    async def close(self) -> None:
        await end(self._tending)
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._pool:
            await self._pool.close()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Row]]:
        """A connection in autocommit. Whatever shows the server unwell becomes ShardUnavailable and counts."""
        pool, wait = self._pool, None
        if self._breaker.is_open or pool is None:
            raise self._unavailable()
        try:
            async with self._taken(pool) as connection:
                with hanging_up_after(self._limits.statement_timeout_ms / 1000 + GRACE_S, connection) as wait:
                    yield connection
            self._breaker.succeeded()
            self._last_success = time.monotonic()
        except (PoolClosed, PoolTimeout, TooManyRequests) as error:
            raise self._unavailable() from error  # too many callers are no sign of a bad server
        except psycopg.Error as error:
            silent = wait is not None and wait.was_ended
            raise self._judged(error, is_news=pool is self._pool, silent=silent) from error

    @contextlib.asynccontextmanager
    async def _taken(self, pool: Connections) -> AsyncIterator[AsyncConnection[Row]]:
        """From the pool, past those whose server has hung up meanwhile: after its restart, all of them."""
        connection = await pool.getconn()
        while has_hung_up(connection):
            await connection.close()  # or the pool would take it back
            await pool.putconn(connection)
            connection = await pool.getconn()
        self._in_use += 1
        try:
            yield connection
        finally:
            self._in_use -= 1
            await pool.putconn(connection)

    def _judged(self, error: psycopg.Error, *, is_news: bool, silent: bool) -> Exception:
        """What a caller gets to see of it; a server that is unwell is counted, unless the connection is one of those
        that have been given up already. One that cannot be heard is left alone at once: the next caller would wait as
        long, and the one after him. If it was but this connection, the probe finds out in a moment, and all of them
        are replaced."""
        state = error.sqlstate or ("lost" if isinstance(error, psycopg.OperationalError) else "")
        if state == MOVED:
            return SlotMoved(slots=_slots(error.diag.message_detail or ""))
        if state.startswith(BUSY):
            return self._unavailable()
        if state == errors.QueryCanceled.sqlstate:
            if is_news:
                self._failed("a statement ran into its time limit")
            return self._unavailable()
        if not state.startswith(UNWELL):
            return error  # a mistake of ours: the answer of a server that is well
        reason = "the connection was lost" if state == "lost" else f"the server refuses work (SQLSTATE {state})"
        if is_news:
            self._failed("nothing is heard of it" if silent else reason, at_once=silent)
        return Undecided(retry_after_s=RETRY_AFTER_S) if state.startswith(UNDECIDED) else self._unavailable()

    def _unavailable(self) -> ShardUnavailable:
        kind = ControlUnavailable if self._number is None else ShardUnavailable
        return kind(f"{self.name} cannot answer now; try again", retry_after_s=RETRY_AFTER_S)

    def _failed(self, reason: str, *, at_once: bool = False) -> None:
        if self._breaker.failed(reason, at_once=at_once):
            log.warning("%s is down: %s", self.name, reason)
            self._down.set()

    def _cannot_connect(self, reason: str) -> None:
        """Without doubt only where no connection is left: a server that is merely out of them serves those it has."""
        if self._in_use or (self._pool and self._pool.get_stats()["pool_available"]):
            log.warning("%s: %s, but others work", self.name, reason)
        else:
            self._failed(reason, at_once=True)

    async def _tend(self) -> None:
        """While it is up and idle: look whether it still is. While it is down: probe until it is back."""
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._down.wait()
            except TimeoutError:
                await self._look()
                continue
            self._down.clear()
            self._retire()
            while not await self._probe():
                await asyncio.sleep(PROBE_EVERY_S)
            self._pool = await self._make_pool()
            self._breaker.close()
            log.warning("%s is back", self.name)

    async def _look(self) -> None:
        if self._in_use or time.monotonic() - self._last_success < LOOK_EVERY_S:
            return
        with contextlib.suppress(ShardUnavailable, psycopg.Error):
            async with self.connection() as connection:
                await self._ask(connection, "SELECT 1")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _retire(self) -> None:
        if self._pool:
            self._in_background(self._pool.close())
            self._pool = None

    async def _probe(self) -> bool:
        try:
            probe = await AsyncConnection.connect(self._url, autocommit=True, **self._connect_options())
            async with probe:
                with hanging_up_after(self._limits.connect_timeout_s, probe):
                    await self._greet(probe)
        except (psycopg.Error, OSError):
            return False
        except Exception:
            log.exception("%s: a probe failed", self.name)
            return False
        return True

    async def _make_pool(self) -> Connections:
        database = self

        class Watched(AsyncConnection[Row]):
            """The pool retries a failed connect in silence; the breaker has to hear of it."""

            @classmethod
            async def connect(cls, *args: Any, **kwargs: Any) -> Any:
                try:
                    return await super().connect(*args, **kwargs)
                except psycopg.OperationalError:
                    database._cannot_connect("no connection can be made")
                    raise

        limits = self._limits
        pool: Connections = AsyncConnectionPool(
            self._url,
            connection_class=Watched,
            kwargs={"autocommit": True} | self._connect_options(),
            configure=self._configure,
            min_size=limits.min_size,
            max_size=limits.max_size,
            timeout=limits.acquire_timeout_ms / 1000,
            max_waiting=limits.max_size * 1000,
            max_lifetime=3600,
            name=self.name,
            open=False,
        )
        await pool.open(wait=False)
        return pool

    def _connect_options(self) -> dict[str, Any]:
        return {"connect_timeout": self._limits.connect_timeout_s, "application_name": "mqueue"} | KEEPALIVE

    async def _configure(self, connection: AsyncConnection[Row]) -> None:
        """By SET, not by startup options: those do not pass every connection pooler."""
        limits = self._limits
        milliseconds = (limits.statement_timeout_ms, limits.lock_timeout_ms, 2 * limits.statement_timeout_ms)
        try:
            with hanging_up_after(limits.connect_timeout_s, connection):
                await connection.execute(SETTINGS, [str(number) for number in milliseconds])
                await self._greet(connection)
        except psycopg.Error as error:
            self._cannot_connect(str(error))
            raise

    async def _greet(self, connection: AsyncConnection[Row]) -> None:
        """Refuse a standby, and a shard that is not the one which DATABASE_URLS says it is."""
        if await self._ask(connection, "SELECT pg_is_in_recovery()"):
            raise psycopg.OperationalError("it is a standby, and cannot write")
        if self._number is None:
            return
        try:
            row = await (await connection.execute("SELECT number, deployment FROM shard_identity")).fetchone()
        except errors.UndefinedTable:
            row = None
        if row is None:
            raise psycopg.OperationalError("it has no schema yet: run manage.py migrate_shards")
        number, deployment = row
        if number != self._number:
            raise psycopg.OperationalError(f"the database there is shard {number}: check the order of DATABASE_URLS")
        if (expected := self._deployment()) and deployment != expected:
            raise psycopg.OperationalError("the database there belongs to another deployment: check DATABASE_URLS")

    async def _ask(self, connection: AsyncConnection[Row], question: LiteralString) -> Any:
        row = await (await connection.execute(question)).fetchone()
        return row[0] if row else None


def _slots(mask: str) -> frozenset[int]:
    return frozenset(slot for slot, bit in enumerate(mask) if bit == "1")

"""Connections to one database: a bounded pool, time limits on everything, a breaker, and a probe that heals it."""

import asyncio
import contextlib
import logging
import os
import select
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, errors
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from mqueue.core.conf import Pool
from mqueue.core.errors import ShardUnavailable, Undecided
from shards.breaker import Breaker

log = logging.getLogger(__name__)

PROBE_EVERY_S = 0.25
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

Row = tuple[Any, ...]


def _hang_up(connection: AsyncConnection[Row]) -> None:
    log.warning("a connection has been silent for too long; hanging up")
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


class Database:
    """One shard, or the control database, as this process reaches it."""

    def __init__(self, name: str, url: str, limits: Pool, number: int | None = None) -> None:
        self.name = name
        self._number = number  # the shard that has to be found there
        self._url, self._limits = url, limits
        self._breaker = Breaker()
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] | None = None
        self._down = asyncio.Event()
        self._tending: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()

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
        if self._tending:
            self._tending.cancel()
            await asyncio.gather(self._tending, *self._background, return_exceptions=True)
        if self._pool:
            await self._pool.close()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Row]]:
        """A connection in autocommit. Whatever shows the server unwell becomes ShardUnavailable and counts."""
        pool = self._pool
        if self._breaker.is_open or pool is None:
            raise self._unavailable()
        try:
            async with pool.connection() as connection:
                with self._hang_up_after(self._limits.statement_timeout_ms / 1000 + GRACE_S, connection):
                    yield connection
            self._breaker.succeeded()
        except (PoolClosed, TooManyRequests) as error:
            raise self._unavailable() from error
        except PoolTimeout as error:
            self._failed("no connection became free in time")
            raise self._unavailable() from error
        except errors.QueryCanceled as error:
            self._failed("a statement ran into its time limit")
            raise self._unavailable() from error
        except psycopg.Error as error:
            state = error.sqlstate or ("lost" if isinstance(error, psycopg.OperationalError) else "")
            if not state.startswith(UNWELL):
                raise  # a mistake of ours, a lock timeout, a deadlock: the answer of a server that is well
            self._failed(
                "the connection was lost" if state == "lost" else f"the server refuses work (SQLSTATE {state})"
            )
            self._weed(pool)
            if state.startswith(UNDECIDED):
                raise Undecided(retry_after_s=RETRY_AFTER_S) from error
            raise self._unavailable() from error

    @contextlib.contextmanager
    def _hang_up_after(self, seconds: float, connection: AsyncConnection[Row]) -> Iterator[None]:
        """The server ends what takes too long; this ends the wait for a server that cannot be heard any more.

        Not by cancelling: psycopg would then wait for the server to confirm. An end of file it believes at once.
        """
        timer = asyncio.get_running_loop().call_later(seconds, _hang_up, connection)
        try:
            yield
        finally:
            timer.cancel()

    def _unavailable(self) -> ShardUnavailable:
        return ShardUnavailable(f"{self.name} cannot answer now; try again", retry_after_s=RETRY_AFTER_S)

    def _failed(self, reason: str, *, connecting: bool = False) -> None:
        if self._breaker.failed(reason, connecting=connecting):
            log.warning("%s is down: %s", self.name, reason)
            self._down.set()

    async def _tend(self) -> None:
        """While it is down: fail those who wait for a connection, then probe until it is back."""
        while True:
            await self._down.wait()
            self._down.clear()
            self._retire()
            while not await self._probe():
                await asyncio.sleep(PROBE_EVERY_S)
            self._pool = await self._make_pool()
            self._breaker.close()
            log.warning("%s is back", self.name)

    def _weed(self, pool: "AsyncConnectionPool[AsyncConnection[Row]]") -> None:
        """One connection was lost, so others may be: have the idle ones tried before the next request is."""
        self._in_background(pool.check())

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
            async with asyncio.timeout(self._limits.connect_timeout_s + 1):
                async with await AsyncConnection.connect(
                    self._url, autocommit=True, **self._connect_options()
                ) as probe:
                    await self._greet(probe)
                    return True
        except (psycopg.Error, OSError, TimeoutError):
            return False

    async def _make_pool(self) -> AsyncConnectionPool[AsyncConnection[Row]]:
        database = self

        class Watched(AsyncConnection[Row]):
            """The pool retries a failed connect in silence; the breaker has to hear of it."""

            @classmethod
            async def connect(cls, *args: Any, **kwargs: Any) -> Any:
                try:
                    return await super().connect(*args, **kwargs)
                except psycopg.OperationalError:
                    database._failed("no connection can be made", connecting=True)
                    raise

        limits = self._limits
        pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            self._url,
            connection_class=Watched,
            kwargs={"autocommit": True} | self._connect_options(),
            configure=self._configure,
            check=self._still_there,
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

    async def _still_there(self, connection: AsyncConnection[Row]) -> None:
        """Without asking the server: an idle connection has nothing to read, unless its server has hung up.

        After a restart of the server, all of them have: the idle ones are replaced before the next is handed out.
        """
        line = select.poll()
        line.register(connection.fileno(), select.POLLIN | select.POLLHUP)
        if line.poll(0):
            await connection.close()  # or the pool would take it back
            if self._pool:
                await self._pool.check()
            raise psycopg.OperationalError("the server has hung up")

    async def _configure(self, connection: AsyncConnection[Row]) -> None:
        """By SET, not by startup options: those do not pass every connection pooler."""
        limits = self._limits
        await connection.execute(
            "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false), "
            "set_config('idle_in_transaction_session_timeout', %s, false), set_config('timezone', 'UTC', false)",
            [str(limits.statement_timeout_ms), str(limits.lock_timeout_ms), str(2 * limits.statement_timeout_ms)],
        )
        try:
            await self._greet(connection)
        except psycopg.Error as error:
            self._failed(str(error), connecting=True)
            raise

    async def _greet(self, connection: AsyncConnection[Row]) -> None:
        """Refuse a standby, and a shard that is not the one which DATABASE_URLS says it is."""
        if await self._ask(connection, "SELECT pg_is_in_recovery()"):
            raise psycopg.OperationalError("it is a standby, and cannot write")
        if self._number is None:
            return
        try:
            found = await self._ask(connection, "SELECT number FROM shard_identity")
        except errors.UndefinedTable:
            raise psycopg.OperationalError("it has no schema yet: run manage.py migrate_shards") from None
        if found != self._number:
            raise psycopg.OperationalError(f"the database there is shard {found}: check the order of DATABASE_URLS")

    async def _ask(self, connection: AsyncConnection[Row], question: LiteralString) -> Any:
        row = await (await connection.execute(question)).fetchone()
        return row[0] if row else None

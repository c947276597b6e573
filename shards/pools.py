"""Connections to one database: a bounded pool, time limits on everything, a breaker, and a probe that heals it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, errors
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from mqueue.core.conf import Pool
from mqueue.core.errors import ShardUnavailable, Undecided
from shards.breaker import Breaker

log = logging.getLogger(__name__)

PROBE_EVERY_S = 0.25
RETRY_AFTER_S = 1.0
# How long a peer that vanished without a word (a pulled cable) may go unnoticed.
KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5_000,
}
# The server's word that it cannot work now, as against an error in what we asked.
UNWELL = (
    errors.ConnectionException,
    errors.InsufficientResources,
    errors.OperatorIntervention,
    errors.SystemError,
    errors.ReadOnlySqlTransaction,
)

Row = tuple[Any, ...]


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
        self._closing: set[asyncio.Task[None]] = set()

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
            await asyncio.gather(self._tending, *self._closing, return_exceptions=True)
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
        except UNWELL as error:
            self._failed(f"the server refuses work (SQLSTATE {error.sqlstate})")
            raise self._unavailable() from error
        except psycopg.OperationalError as error:
            if error.sqlstate is not None:
                raise  # a lock timeout, a deadlock: an answer of a server that is well
            self._failed("the connection was lost")
            raise Undecided(retry_after_s=RETRY_AFTER_S) from error

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

    def _retire(self) -> None:
        if self._pool:
            task = asyncio.create_task(self._pool.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
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

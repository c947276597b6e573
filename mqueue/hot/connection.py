"""A client for the configured Redis or Valkey, by URL or through Sentinel."""

from functools import cache
from typing import Any

from redis.asyncio import Redis as Client
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError  # noqa: A004  redis's own

from mqueue.core.conf import Redis

SENTINEL_PORT = 26379
CONNECT_S = 1.0
AWAY_S = 0.5  # after a failure Redis is left alone for so long


def connect(conf: Redis, *, timeout_s: float | None, text: bool = False, retries: int = 1) -> Client:
    """Connects at first use, and again after a loss. Without a timeout it may wait for ever: for subscriptions.

    The sentinels are asked one after the other, each once: the library would try one that is dead or silent ten times
    over, and every caller would wait for it."""
    options: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s or CONNECT_S}
    options["decode_responses"] = text
    options["retry"] = Retry(NoBackoff(), retries, supported_errors=(ConnectionError,))  # a server that was restarted
    if conf.password:
        options["password"] = conf.password
    if not conf.sentinels:
        client: Client = Client.from_url(conf.url, **options)
        return _telling(client)
    once = {"socket_timeout": timeout_s or CONNECT_S, "socket_connect_timeout": timeout_s or CONNECT_S}
    asked = once | {"retry": Retry(NoBackoff(), 0)}
    sentinel: Any = Sentinel([_address(text) for text in conf.sentinels], sentinel_kwargs=asked)  # type: ignore[no-untyped-call]
    for one in sentinel.sentinels:
        _telling(one)
    master: Client = sentinel.master_for(conf.master, **options)
    return _telling(master)


def _telling(client: Client) -> Client:
    """One that says in its own words where a connection has just been closed: uvloop raises a RuntimeError for who
    writes to it then, and nobody takes that for a server that is gone."""
    pool = client.connection_pool
    pool.connection_class = _telling_kind(pool.connection_class)  # type: ignore[arg-type]
    return client


@cache
def _telling_kind(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    class Telling(kind):  # type: ignore[valid-type, misc]
        async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            try:
                await super().send_packed_command(command, check_health)
            except RuntimeError as error:
                if "closed" not in str(error):
                    raise
                raise ConnectionError("the connection has just been closed") from error

    return Telling


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return (host, int(port)) if host else (text, SENTINEL_PORT)

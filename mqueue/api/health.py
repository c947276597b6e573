"""/health, /live and /ready: without a token, and without a word about any tenant."""

import time

import msgspec
import redis.asyncio

from mqueue import __version__
from mqueue.api.handlers import FRESH, Answer
from mqueue.core.conf import Conf
from mqueue.engine.engine import Engine
from mqueue.hot.connection import connect
from mqueue.wal.folder import WalDir

REDIS_PATIENCE_S = 0.5


class Health:
    def __init__(self, conf: Conf, engine: Engine) -> None:
        self._engine = engine
        self._wal = WalDir(conf.wal_dir)
        self._began = time.monotonic()
        self._redis: redis.asyncio.Redis = connect(conf.redis, timeout_s=REDIS_PATIENCE_S)

    async def close(self) -> None:
        await self._redis.aclose()

    async def answer(self, path: str) -> Answer:
        if path == "/live":
            return 200, FRESH, b'{"status":"OK"}'
        cluster = self._engine.cluster
        serves = bool(cluster.slots.version) and any(shard.is_up for shard in cluster.shards)
        if path == "/ready":
            return (200, FRESH, b'{"status":"OK"}') if serves else (503, FRESH, b'{"status":"starting"}')
        control, redis_ = self._part(cluster.control.trouble), self._part(await self._redis_trouble())
        shards = [self._part(shard.trouble) for shard in cluster.shards]
        wal = self._part(self._wal_trouble())
        well = all(part["status"] == "OK" for part in (control, redis_, wal, *shards))
        uptime_s = time.monotonic() - self._began
        body = {
            "status": "OK" if well else "degraded",
            "version": __version__,
            "uptime": round(uptime_s, 1),
            "uptime_ms": int(uptime_s * 1000),
            "control": control,
            "shards": [{"shard": number} | part for number, part in enumerate(shards)],
            "redis": redis_,
            "wal": wal,
        }
        return 200 if serves else 503, FRESH, msgspec.json.encode(body)

    def _part(self, trouble: str) -> dict[str, str]:
        return {"status": "down", "detail": trouble} if trouble else {"status": "OK"}

    def _wal_trouble(self) -> str:
        """Of the log of buffered messages."""
        if trouble := self._engine.buffering.trouble:
            return trouble
        count = len(self._wal.quarantined())
        return f"{count} of its segments were set aside: see manage.py wal list" if count else ""

    async def _redis_trouble(self) -> str:
        try:
            await self._redis.ping()
            return "it was too slow a moment ago: heads are read from PostgreSQL" if self._engine.hot.is_away else ""
        except (redis.RedisError, OSError, TimeoutError) as error:
            return f"no answer ({type(error).__name__})"

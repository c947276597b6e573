"""The control database and the shards as Django sees them: `default`, `shard_0`, `shard_1`, …"""

from typing import Any

from psycopg.conninfo import conninfo_to_dict

from mqueue.core.conf import Conf

POOL = 4  # connections of the admin and the control plane in one process to one database
STORE = "store"  # the app whose tables live on every shard, and nowhere else


def django_databases(conf: Conf) -> dict[str, dict[str, Any]]:
    urls = {"default": conf.control_url} | {alias(n): url for n, url in enumerate(conf.shard_urls)}
    return {name: _database(conf, url) for name, url in urls.items()}


def alias(shard: int) -> str:
    return f"shard_{shard}"


def shard_aliases(conf: Conf) -> list[str]:
    return [alias(n) for n in range(len(conf.shard_urls))]


def _database(conf: Conf, url: str) -> dict[str, Any]:
    parts: dict[str, Any] = dict(conninfo_to_dict(url))
    settings = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "CONN_HEALTH_CHECKS": True,
        "CONN_MAX_AGE": 0,  # a request gives its connection back to the pool
    }
    # Under ASGI each request has a thread of its own: what that left open, nobody would use again.
    pool = {"min_size": 0, "max_size": POOL, "timeout": conf.pool.acquire_timeout_ms / 1000}
    return settings | {"OPTIONS": {"connect_timeout": conf.pool.connect_timeout_s, "pool": pool} | parts}


class Router:
    """Tables of the store belong to the shards, all others to the control database."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return (app_label == STORE) == db.startswith("shard_")

    def db_for_read(self, model: Any, **hints: object) -> str | None:
        return self._home(model)

    def db_for_write(self, model: Any, **hints: object) -> str | None:
        return self._home(model)

    def _home(self, model: Any) -> str | None:
        if model._meta.app_label == STORE:
            raise LookupError(f"{model.__name__} lives on the shards: name one with .using('shard_0')")
        return "default"

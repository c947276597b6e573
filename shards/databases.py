"""The control database and the shards as Django sees them: `default`, `shard_0`, `shard_1`, …"""

from typing import Any

from psycopg.conninfo import conninfo_to_dict

from mqueue.core.conf import Conf

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
        "CONN_MAX_AGE": 0,  # under ASGI each request has a thread of its own: what it leaves open, nobody uses again
    }
    return settings | {"OPTIONS": {"connect_timeout": conf.pool.connect_timeout_s} | parts}


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

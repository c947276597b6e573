"""What `make run` starts: one Service each."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from launch import embedded, probes, processes
from launch.embedded import Account
from launch.supervisor import Service
from mqueue.core.conf import ROOT, Conf

MANAGE = [sys.executable, str(ROOT / "manage.py")]
SERVE = [sys.executable, "-m", "mqueue.serve"]


def servers(conf: Conf, account: Account | None) -> list[Service]:
    """The embedded ones; with DATABASE_URLS and REDIS_URL set there are none."""
    found = []
    if conf.embedded.postgres:
        found.append(_postgres(conf, account))
    if conf.embedded.redis:
        found.append(_valkey(conf, account))
    return found


def workers(conf: Conf) -> list[Service]:
    return [_celery(conf), _api(conf), _daemons(conf), _metrics(conf)]


def ports(conf: Conf) -> dict[str, tuple[str, int, str]]:
    """By service: where it listens, and the setting that says so."""
    api = conf.api
    return {
        "api": (api.host, api.port, "MQUEUE_PORT"),
        "metrics": (api.metrics_host, api.metrics_port, "METRICS_PORT"),
    }


def _postgres(conf: Conf, account: Account | None) -> Service:
    folder = embedded.postgres_folder(conf.embedded)
    maintenance = conf.shard_urls[0].replace("/mqueue_shard_0?", "/postgres?")
    return Service(
        "postgres",
        embedded.postgres_command(conf.embedded, account),
        ready=partial(probes.postgres, maintenance),
        env=_server_env(conf),
        account=account,
        stop_signal=signal.SIGINT,  # "fast": ends the sessions and writes a checkpoint
        before_start=partial(processes.clear_stale_postmaster, folder, conf.embedded.sockets),
        is_server=True,
    )


def _valkey(conf: Conf, account: Account | None) -> Service:
    command = embedded.valkey_command(conf.embedded, account)
    ready = partial(probes.valkey, conf.redis.url)
    return Service("valkey", command, ready=ready, env=_server_env(conf), account=account, is_server=True)


def _api(conf: Conf) -> Service:
    ready = partial(probes.http, f"{conf.api.origin}/ready")
    return _renewing("api", ready, _counting_env(conf, "api"), conf)


def _metrics(conf: Conf) -> Service:
    ready = partial(probes.http, f"{conf.api.metrics_origin}/")
    return _renewing("metrics", ready, _our_env(conf), conf)


def _renewing(name: str, ready: Callable[[], Awaitable[bool]], env: dict[str, str], conf: Conf) -> Service:
    """A parent that renews its own workers."""
    word = conf.data / "run" / f"{name}.renewed"
    env |= {"MQUEUE_READY_FILE": str(word)}
    return Service(name, [*SERVE, name], ready=ready, env=env, word=word)


def _daemons(conf: Conf) -> Service:
    return _with_ready_file("daemons", [*MANAGE, "daemon", "all"], conf)


def _celery(conf: Conf) -> Service:
    schedule = str(conf.data / "celerybeat-schedule")
    command = [sys.executable, "-m", "celery", "--app", "mqueue.celery", "worker", "--beat", "--schedule", schedule]
    command += ["--pool", "threads", "--concurrency", "2", "--loglevel", "INFO", "--without-gossip", "--without-mingle"]
    return replace(_with_ready_file("celery", command, conf), is_alone=True)  # its schedule is one file


def _with_ready_file(name: str, command: list[str], conf: Conf) -> Service:
    path = conf.data / "run" / f"{name}.ready"

    def forget() -> None:
        path.unlink(missing_ok=True)

    env = _counting_env(conf, name) | {"MQUEUE_READY_FILE": str(path)}
    return Service(name, command, ready=partial(probes.file, path), env=env, before_start=forget)


def _counting_env(conf: Conf, name: str) -> dict[str, str]:
    """prometheus_client looks for the first of them when it is imported."""
    return _our_env(conf) | {"PROMETHEUS_MULTIPROC_DIR": str(conf.metrics.folder), "MQUEUE_SERVICE": name}


def _our_env(conf: Conf) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    ours = {"PYTHONPATH": path, "MQUEUE_DATA": str(conf.data), "DJANGO_SETTINGS_MODULE": "mqueue.settings"}
    return dict(os.environ) | ours


def _server_env(conf: Conf) -> dict[str, str]:
    """No secret, no PG* variable of the user's that would change the server; and the mark by which sweep() knows it."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", "MQUEUE_DATA": str(conf.data)}


def migrate_command() -> list[str]:
    return [*MANAGE, "migrate_shards"]


def log_folder(conf: Conf) -> Path:
    return conf.data / "log"

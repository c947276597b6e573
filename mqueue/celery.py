"""Celery: slow and periodic work, on the same Redis as the queue's heads."""

import logging
import os
from typing import Any
from urllib.parse import quote

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqueue.settings")

from celery import Celery, signals
from celery.schedules import crontab
from redis.backoff import NoBackoff
from redis.retry import Retry

from daemons.base import tell_ready
from mqueue.core.conf import Conf, conf

SENTINEL_S = 1.0
SILENT_S = 5.0  # a broker that says nothing for so long is gone; twice that, and the worker has another connection
JOBS_EVERY_S = 2.0
CHATTY = ("celery.app.trace", "celery.worker.strategy", "celery.beat")  # a line for each look for jobs is too much


def broker(conf: Conf) -> dict[str, Any]:
    """Where Celery's own messages go: under a prefix of their own, beside our keys."""
    options: dict[str, Any] = {"global_keyprefix": "mqueue-celery:", "visibility_timeout": 6 * 3600}
    options |= {"socket_timeout": SILENT_S, "socket_connect_timeout": SILENT_S, "health_check_interval": int(SILENT_S)}
    credentials = f":{quote(conf.redis.password, safe='')}@" if conf.redis.password else ""
    if conf.redis.sentinels:
        options["master_name"] = conf.redis.master
        # Or one that is silent is tried ten times over before the next one is asked.
        once: dict[str, Any] = {"socket_timeout": SENTINEL_S, "socket_connect_timeout": SENTINEL_S}
        options["sentinel_kwargs"] = once | {"retry": Retry(NoBackoff(), 0)}
        url = ";".join(f"sentinel://{credentials}{address}" for address in conf.redis.sentinels)
    elif conf.redis.url.startswith("unix://"):
        path, _, query = conf.redis.url.removeprefix("unix://").partition("?")
        url = f"redis+socket://{credentials}{path}?{query.replace('db=', 'virtual_host=')}"
    else:
        scheme, _, rest = conf.redis.url.partition("://")
        url = f"{scheme}://{rest if '@' in rest else credentials + rest}"
    return {"broker_url": url, "broker_transport_options": options}


app = Celery("mqueue")
app.conf.update(
    **broker(conf()),
    imports=["daemons.maintenance", "daemons.jobs", "pipeline.tasks"],
    beat_schedule={
        "make partitions": {"task": "mqueue.make_partitions", "schedule": 1800.0},
        "forget keys": {"task": "mqueue.forget_keys", "schedule": 3600.0},
        "recount": {"task": "mqueue.recount", "schedule": 3600.0},
        "retain": {"task": "mqueue.retain", "schedule": crontab(minute=50)},
        "pipeline": {"task": "mqueue.pipeline", "schedule": crontab(hour=2, minute=10)},
        "forget usage": {"task": "mqueue.forget_usage", "schedule": 86_400.0},
        "run jobs": {"task": "mqueue.run_jobs", "schedule": JOBS_EVERY_S, "options": {"expires": JOBS_EVERY_S}},
    },
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_acks_late=True,
    timezone="UTC",
    worker_hijack_root_logger=False,
)


@signals.after_setup_logger.connect
def _quieten(**kwargs: Any) -> None:
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


@signals.worker_ready.connect
def _ready(**kwargs: Any) -> None:
    tell_ready()

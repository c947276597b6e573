"""The tasks of the Celery peer, as its workers import them."""

import os

from celery import Celery

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,  # at least once, as ours; its default loses what a crashed worker had begun
    worker_prefetch_multiplier=64,
    broker_pool_limit=64,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


def work(body: str) -> None:
    """Nothing."""


task = app.task(name="bench.work")(work)

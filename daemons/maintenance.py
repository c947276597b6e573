"""Slow and periodic work, run by Celery."""

import asyncio
import datetime
import logging

from celery import shared_task

from mqueue.core.conf import conf
from mqueue.core.errors import ShardUnavailable
from shards import partitions
from shards.cluster import Cluster

log = logging.getLogger(__name__)


@shared_task(name="mqueue.make_partitions")
def make_partitions() -> int:
    """The coming days' partitions on every shard; returns how many were missing. Safe to run twice at once."""
    return asyncio.run(_make_partitions())


async def _make_partitions() -> int:
    cluster = Cluster(conf())
    today = datetime.datetime.now(datetime.UTC).date()
    days = [today + datetime.timedelta(days) for days in range(partitions.DAYS_AHEAD + 1)]
    made = 0
    for shard in cluster.shards:
        await shard.open()
        try:
            made += await partitions.make(shard, days)
        except ShardUnavailable:
            log.warning("%s is down; its partitions are made by the next run, or by the first message", shard.name)
        finally:
            await shard.close()
    return made

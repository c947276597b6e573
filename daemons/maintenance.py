"""Slow and periodic work, run by Celery."""

import asyncio
import datetime
import logging
from dataclasses import replace

import psycopg
from celery import shared_task

from mqueue.core.conf import conf
from mqueue.core.errors import ShardUnavailable
from shards import partitions, retention
from shards.cluster import Cluster
from shards.sql import statement

log = logging.getLogger(__name__)
RECOUNT_MS = 600_000
PORTION = 10_000
USAGE_DAYS = 400


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


@shared_task(name="mqueue.recount")
def recount() -> int:
    """Compare the counts with the rows, and mend what differs; returns how many were wrong. Slow, and harmless."""
    return asyncio.run(_recount())


async def _recount() -> int:
    patient = replace(conf().pool, statement_timeout_ms=RECOUNT_MS)
    cluster = Cluster(replace(conf(), pool=patient))
    wrong = 0
    for shard in cluster.shards:
        await shard.open()
        try:
            async with shard.connection() as connection:
                found = await (await connection.execute(statement("recount"))).fetchall()
        except ShardUnavailable:
            log.warning("%s could not be counted", shard.name)
        else:
            wrong += len(found)
            if found:
                log.warning("%s: %d counts were wrong, such as %s", shard.name, len(found), found[0])
        finally:
            await shard.close()
    return wrong


@shared_task(name="mqueue.forget_keys")
def forget_keys() -> int:
    """Drop idempotency keys whose dedupe window is over for a day; returns how many rows went."""
    return asyncio.run(_forget_keys())


async def _forget_keys() -> int:
    cluster = Cluster(conf())
    parameters = {"window_ms": conf().retention.dedupe_window_ms, "limit": PORTION}
    forgotten = 0
    for shard in cluster.shards:
        await shard.open()
        try:
            portion = PORTION
            while portion >= PORTION:
                async with shard.connection() as connection:
                    row = await (await connection.execute(statement("forget_keys"), parameters)).fetchone()
                portion = row[0] if row else 0
                forgotten += portion
        except ShardUnavailable:
            log.warning("%s is down; its old keys are dropped by the next run", shard.name)
        finally:
            await shard.close()
    return forgotten


@shared_task(name="mqueue.retain")
def retain() -> int:
    """Drop days of the log that are past every topic's retention; returns how many. With a lake the pipeline does it,
    once they are in there."""
    if conf().lake.is_on:
        return 0
    dropped = 0
    terms = retention.terms(conf())
    for number, url in enumerate(conf().shard_urls):
        try:
            with retention.connected(url) as connection:
                for one in retention.expired(connection, terms):
                    retention.drop(connection, one)
                    log.info("shard %d: dropped %s", number, one.name)
                    dropped += 1
        except psycopg.OperationalError as error:  # down, or the partition is in use: the next run goes on
            log.warning("shard %d: old days could not be dropped now: %s", number, error)
    return dropped


@shared_task(name="mqueue.forget_usage")
def forget_usage() -> int:
    """Drop what was used more than a year ago; returns how many rows went."""
    return asyncio.run(_forget_usage())


async def _forget_usage() -> int:
    cluster = Cluster(conf())
    forgotten = 0
    for shard in cluster.shards:
        await shard.open()
        try:
            async with shard.connection() as connection:
                forgotten += (await connection.execute(statement("forget_usage"), {"days": USAGE_DAYS})).rowcount
        except ShardUnavailable:
            log.warning("%s is down; its old usage is dropped by the next run", shard.name)
        finally:
            await shard.close()
    return forgotten

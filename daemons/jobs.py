"""Jobs, a slice at a time: Celery looks for them every two seconds, and who finds one holds it while he works on it.

A portion is announced, done and counted. Who goes on after one that died does the announced portion again, which does
nothing twice, and counts by the events that bear the job's mark.
"""

import asyncio
import logging
import time

from celery import shared_task

from daemons.job_work import Worker
from mqueue.core.conf import conf
from mqueue.core.errors import ShardUnavailable
from mqueue.engine.hot import Hot
from shards.cluster import Cluster
from shards.pools import Database
from tenants import job_steps, jobs
from tenants.job_steps import HeldJob, Portion
from tenants.settings_cache import SettingsCache

log = logging.getLogger(__name__)
SLICE_S = 5.0
AT_ONCE = 8
PORTION = 500
AFTER_TROUBLE_S = 3.0


@shared_task(name="mqueue.run_jobs", ignore_result=True)
def run_jobs() -> int:
    """How many it worked on. Safe to run twice at once."""
    return asyncio.run(_run_jobs()) if jobs.look_for_jobs() else 0


async def _run_jobs() -> int:
    cluster = Cluster(conf())
    settings, hot = SettingsCache(cluster.control, {}), Hot(conf(), cluster)
    await cluster.open()
    try:
        await settings.open()
        await hot.open(listen=False)
        return await run_slice(cluster.control, Worker(cluster, settings, hot))
    finally:
        await hot.close()
        await settings.close()
        await cluster.close()


async def run_slice(control: Database, worker: Worker, seconds: float = SLICE_S) -> int:
    try:
        async with control.connection() as connection:
            held = await job_steps.claim(connection, AT_ONCE)
    except ShardUnavailable:
        return 0
    await asyncio.gather(*(_Run(control, worker, job).until(time.monotonic() + seconds) for job in held))
    return len(held)


class _Run:
    """One job, for one slice."""

    def __init__(self, control: Database, worker: Worker, job: HeldJob) -> None:
        self._control, self._worker, self._job = control, worker, job

    async def until(self, deadline: float) -> None:
        try:
            if await self._work(deadline):
                async with self._control.connection() as connection:
                    await job_steps.release(connection, self._job)
        except ShardUnavailable as error:
            await self._stop(f"{error.detail} It goes on by itself.", retry=True)
        except Exception:
            log.exception("job %d failed", self._job.id)
            await self._stop("This is our fault; the log of Celery says more.", retry=False)

    async def _work(self, deadline: float) -> bool:
        """Whether there is more to do, and it is still ours."""
        job = self._job
        if job.total is None:
            job.total = await self._worker.total(job)
        while time.monotonic() < deadline:
            began = time.monotonic()
            portion = job.pending or await self._find()
            done = 0
            if portion.size and not job.is_dry_run:
                if not job.pending and not await self._announce(portion):
                    return False
                done = await self._worker.act(job, portion)
                if job.pending:  # some of it may have been done by who announced it
                    done = await self._worker.acted(job, portion)
            if not await self._advance(portion, done):
                return False
            if job.rate_per_s and not job.is_dry_run:
                await asyncio.sleep(max(0.0, began + portion.size / job.rate_per_s - time.monotonic()))
        return True

    async def _find(self) -> Portion:
        job = self._job
        limit = PORTION
        if job.rate_per_s and not job.is_dry_run:
            limit = min(limit, job.rate_per_s)
        if job.most is not None:
            limit = min(limit, job.most - job.matched)
        return await self._worker.find(job, limit)

    async def _announce(self, portion: Portion) -> bool:
        async with self._control.connection() as connection:
            return await job_steps.announce(connection, self._job, portion)

    async def _advance(self, portion: Portion, done: int) -> bool:
        job = self._job
        job.cursor, job.pending, job.matched = portion.cursor, None, job.matched + portion.size
        is_over = portion.is_last or (job.most is not None and job.matched >= job.most)
        async with self._control.connection() as connection:
            return await job_steps.advance(connection, job, portion, done=done, is_over=is_over)

    async def _stop(self, error: str, *, retry: bool) -> None:
        try:
            async with self._control.connection() as connection:
                if retry:
                    await job_steps.release(connection, self._job, error, AFTER_TROUBLE_S)
                else:
                    await job_steps.fail(connection, self._job, error)
        except ShardUnavailable:
            log.warning("job %d: the control database is down; it goes on when it is back", self._job.id)

"""What jobs do with messages: find a portion, do it by the engine's own verbs, and count what was done."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import structs

from mqueue.core.conf import conf
from mqueue.core.searches import DeadFilter, place_of
from mqueue.engine.dead import DeadLetters
from mqueue.engine.dead_search import DeadSearch
from mqueue.engine.dead_walk import Line
from mqueue.engine.history import History
from mqueue.engine.hot import Hot
from mqueue.engine.look import Looking
from mqueue.engine.purge import Purging, mark_of
from mqueue.engine.topics import Topics
from mqueue.engine.totals import totals
from shards.calls import fetch
from shards.cluster import Cluster
from shards.sql import statement
from tenants.job_steps import HeldJob, Portion
from tenants.rules import DELETE, PURGE, REPLAY
from tenants.settings_cache import SettingsCache

EVENTS = {REPLAY: 10, DELETE: 12, PURGE: 11}  # the kind of event that each verb leaves
DEAD_PHASE = "dead:"  # a purge that also deletes dead letters has come to these


class Worker:
    def __init__(self, cluster: Cluster, settings: SettingsCache, hot: Hot) -> None:
        self._cluster = cluster
        topics = Topics(cluster, settings, auto_create_namespaces=False)
        self._dead, self._search = DeadLetters(cluster, topics, hot), DeadSearch(cluster)
        self._purging = Purging(cluster, topics)
        self._look = Looking(cluster, topics, History(conf(), cluster.control))

    async def total(self, job: HeldJob) -> int:
        """About how many messages it has to look at."""
        if job.kind != PURGE:
            return (await totals(self._look, job.namespace, job.filter.topic)).dead
        found = await totals(self._look, job.namespace, job.topic)
        return found.waiting + (found.dead if job.with_dead else 0)

    async def find(self, job: HeldJob, limit: int) -> Portion:
        if job.kind != PURGE:
            return await self._find_dead(job, job.kind, job.filter, job.cursor, limit)
        if job.cursor.startswith(DEAD_PHASE):
            of_topic = DeadFilter(topic=job.topic)
            found = await self._find_dead(job, DELETE, of_topic, job.cursor.removeprefix(DEAD_PHASE), limit)
            return structs.replace(found, cursor=DEAD_PHASE + found.cursor)
        return await self._find_waiting(job, limit)

    async def act(self, job: HeldJob, portion: Portion) -> int:
        """How many it were: what is gone meanwhile, or held by somebody, is left out."""
        done, who = 0, (job.created_by, job.mark)
        for topic, ids in portion.batches.items():
            if portion.verb == PURGE:
                done += await self._purging.purge((job.namespace, topic), ids, who)
            else:
                by = datetime.fromisoformat(portion.by)
                done += await self._dead.act(portion.verb, (job.namespace, topic), ids, by, who)
        return done

    async def acted(self, job: HeldJob, portion: Portion) -> int:
        """How many of a portion this job has done, now or before: their events bear its mark."""
        done = 0
        for topic, ids in portion.batches.items():
            parameters = {"ids": ids, "kind": EVENTS[portion.verb], "detail": job.mark}
            rows = await fetch(self._cluster.shard_of_topic(job.namespace, topic), statement("acted"), parameters)
            done += rows[0][0]
        return done

    async def _find_dead(self, job: HeldJob, verb: str, wanted: DeadFilter, cursor: str, limit: int) -> Portion:
        found = await self._search.search(job.namespace, wanted, place_of(cursor), limit)
        by = max((line.died_at for line in found.lines), default=datetime.now(UTC))
        return Portion(
            verb=verb,
            batches=_by_topic(found.lines),
            by=by.isoformat(),
            cursor=found.next.written() if found.next else cursor,
            is_last=found.next is None,
            searched=found.seen,
        )

    async def _find_waiting(self, job: HeldJob, limit: int) -> Portion:
        ids, mark, looked = await self._purging.look((job.namespace, job.topic), mark_of(job.cursor), limit)
        cursor = mark.written() if looked else DEAD_PHASE
        return Portion(PURGE, {job.topic: ids}, "", cursor, not looked and not job.with_dead, looked)


def _by_topic(lines: Iterable[Line]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for line in lines:
        found[line.topic].append(line.id)
    return dict(found)

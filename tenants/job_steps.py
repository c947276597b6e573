"""How a job moves on, in the control database. Each step counts only for who holds the job, by the number of his term:
one that was stopped, and wakes when another has gone on, changes nothing."""

from typing import Any

import msgspec
from msgspec import Struct
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from mqueue.core.searches import DeadFilter

HOLD_S = 15.0
CLAIM = """
UPDATE job SET state = 'running', term = term + 1, held_until = now() + %(hold_s)s * interval '1 second',
               started_at = coalesce(started_at, now())
FROM namespace n
WHERE n.id = job.namespace_id AND job.id IN (
    SELECT id FROM job
    WHERE state IN ('queued', 'running') AND (held_until IS NULL OR held_until < now())
    ORDER BY held_until NULLS FIRST, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
RETURNING job.id, job.term, n.name, kind, topic, filter, with_dead, is_dry_run, rate_per_s, most, total, matched,
          cursor, pending, created_by
"""
ANNOUNCE = """
UPDATE job SET pending = %(pending)s, total = coalesce(total, %(total)s),
               held_until = now() + %(hold_s)s * interval '1 second'
WHERE id = %(id)s AND term = %(term)s AND state = 'running' RETURNING id
"""
ADVANCE = """
UPDATE job SET cursor = %(cursor)s, searched = searched + %(searched)s, matched = matched + %(matched)s,
               done = done + %(done)s, total = coalesce(total, %(total)s), pending = NULL, error = '',
               held_until = now() + %(hold_s)s * interval '1 second',
               state = CASE WHEN %(over)s AND state = 'running' THEN 'done' ELSE state END,
               finished_at = CASE WHEN %(over)s AND state = 'running' THEN now() ELSE finished_at END
WHERE id = %(id)s AND term = %(term)s RETURNING state
"""
RELEASE = """
UPDATE job SET held_until = now() + %(delay_s)s * interval '1 second', error = %(error)s
WHERE id = %(id)s AND term = %(term)s AND state = 'running'
"""
FAIL = """
UPDATE job SET state = 'failed', error = %(error)s, finished_at = now(), held_until = NULL
WHERE id = %(id)s AND term = %(term)s AND state = 'running'
"""
Connection = AsyncConnection[Any]


class Portion(Struct, frozen=True):
    """What is about to be done: ids by topic, of what died by then; and where to go on afterwards."""

    verb: str
    batches: dict[str, list[int]]
    by: str
    cursor: str
    is_last: bool
    searched: int

    @property
    def size(self) -> int:
        return sum(map(len, self.batches.values()))


class HeldJob(Struct):
    """A job in the hands of one who works on it."""

    id: int
    term: int
    namespace: str
    kind: str
    topic: str
    filter: DeadFilter
    with_dead: bool
    is_dry_run: bool
    rate_per_s: int | None
    most: int | None
    total: int | None
    matched: int
    cursor: str
    pending: Portion | None
    created_by: str

    @property
    def mark(self) -> str:
        """What its events say."""
        return f"job {self.id}"


async def claim(connection: Connection, limit: int) -> list[HeldJob]:
    """Those that nobody holds, the one that has waited longest first."""
    rows = await (await connection.execute(CLAIM, {"hold_s": HOLD_S, "limit": limit})).fetchall()
    names = HeldJob.__struct_fields__
    return [msgspec.convert(dict(zip(names, row, strict=True)), HeldJob) for row in rows]


async def announce(connection: Connection, job: HeldJob, portion: Portion) -> bool:
    """False: it is somebody else's by now, or cancelled."""
    step = _whose(job) | {"pending": Jsonb(msgspec.to_builtins(portion)), "total": job.total}
    return await (await connection.execute(ANNOUNCE, step)).fetchone() is not None


async def advance(connection: Connection, job: HeldJob, portion: Portion, *, done: int, is_over: bool) -> bool:
    """Whether it goes on. What was done counts even where it was cancelled meanwhile."""
    step = _whose(job) | {
        "cursor": portion.cursor,
        "searched": portion.searched,
        "matched": portion.size,
        "done": done,
        "total": job.total,
        "over": is_over,
    }
    row = await (await connection.execute(ADVANCE, step)).fetchone()
    return row is not None and row[0] == "running"


async def release(connection: Connection, job: HeldJob, error: str = "", delay_s: float = 0.0) -> None:
    await connection.execute(RELEASE, _whose(job) | {"error": error[:1000], "delay_s": delay_s})


async def fail(connection: Connection, job: HeldJob, error: str) -> None:
    await connection.execute(FAIL, _whose(job) | {"error": error[:1000]})


def _whose(job: HeldJob) -> dict[str, Any]:
    return {"id": job.id, "term": job.term, "hold_s": HOLD_S}

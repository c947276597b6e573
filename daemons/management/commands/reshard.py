import argparse
import asyncio
from typing import Any

import psycopg
import redis
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mqueue.core.conf import conf
from mqueue.hot.building import Building
from mqueue.hot.connection import connect
from shards.resharding import mover
from shards.resharding.planning import Transfer, parse_slots, plan
from shards.resharding.record import MoverError, ranges, read_last, read_owners
from shards.resharding.tables import mask_of

GRACE_S = 10.0
PATIENCE_S = 5.0
PORTION = 1_000
COUNT = """
SELECT (SELECT count(*) FROM topic WHERE get_bit(%(slots)s::text::bit(1024), slot_of(namespace, name)) = 1),
       (SELECT count(*) FROM delivery WHERE get_bit(%(slots)s::text::bit(1024), (id %% 1024)::integer) = 1),
       (SELECT count(*) FROM message WHERE get_bit(%(slots)s::text::bit(1024), (id %% 1024)::integer) = 1)
"""


class Command(BaseCommand):
    help = (
        "Move slots, and the topics in them, to another shard while traffic flows. docs/operations.md has an example."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        planning = verbs.add_parser("plan", help="say which slots have to move so that each shard has its share")
        planning.add_argument("--to-shards", type=int, required=True, help="how many shards there shall be")
        moving = verbs.add_parser("move", help="move slots, or whatever the plan says")
        moving.add_argument("--slots", type=_slots, help="for example 0-99,200")
        moving.add_argument("--to", type=int, help="the shard that gets them")
        moving.add_argument("--to-shards", type=int, help="instead: as `plan` says")
        moving.add_argument("--dry-run", action="store_true", help="say what would move, and move nothing")
        _add_grace(moving)
        verbs.add_parser("status", help="how far the last move is")
        _add_grace(verbs.add_parser("resume", help="go on with a move whose mover was ended"))
        _add_grace(verbs.add_parser("undo", help="before the switch: drop the copy; after it: move the slots back"))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except (MoverError, psycopg.Error, redis.RedisError) as error:
            raise CommandError(str(error)) from error

    def _plan(self, options: dict[str, Any]) -> None:
        transfers = plan(read_owners(conf().control_url), options["to_shards"])
        for one in transfers:
            self._say(f"{len(one.slots)} slots from shard {one.source} to shard {one.target}: {ranges(one.slots)}")
        if not transfers:
            self._say("nothing has to move")

    def _move(self, options: dict[str, Any]) -> None:
        transfers = self._wanted(options)
        for one in transfers:
            if options["dry_run"]:
                self._tell_size(one)
            else:
                mover.begin(self._tools(options), one.slots, one.target)

    def _status(self, options: dict[str, Any]) -> None:
        move = read_last(conf().control_url)
        if move is None:
            self._say("no slot was ever moved")
            return
        self._say(move.title)
        self._say(f"  {'finished' if move.is_finished else 'not finished'}; last step done: {move.state}")
        if move.progress and not move.is_finished:
            self._say(f"  {move.progress}")
        if move.pause_ms is not None:
            self._say(f"  writes to these slots paused for {move.pause_ms:.0f} ms")

    def _resume(self, options: dict[str, Any]) -> None:
        mover.resume(self._tools(options))

    def _undo(self, options: dict[str, Any]) -> None:
        mover.undo(self._tools(options))

    def _wanted(self, options: dict[str, Any]) -> list[Transfer]:
        owners = read_owners(conf().control_url)
        if options["to_shards"] is not None and options["slots"] is None and options["to"] is None:
            return plan(owners, options["to_shards"])
        if options["slots"] is None or options["to"] is None or options["to_shards"] is not None:
            raise CommandError("name --slots and --to, or --to-shards alone")
        by_source: dict[int, list[int]] = {}
        for slot in options["slots"]:
            by_source.setdefault(owners[slot], []).append(slot)
        wanted = [Transfer(source, options["to"], tuple(slots)) for source, slots in sorted(by_source.items())]
        if all(one.source == one.target for one in wanted):
            self._say(f"they are on shard {options['to']} already")
        return [one for one in wanted if one.source != one.target]

    def _tell_size(self, one: Transfer) -> None:
        with psycopg.connect(conf().shard_urls[one.source]) as connection:
            found = connection.execute(COUNT, {"slots": mask_of(one.slots)}).fetchone()
        topics, waiting, logged = found or (0, 0, 0)
        self._say(
            f"would move {len(one.slots)} slots from shard {one.source} to shard {one.target}: {topics:,} topics, "
            f"{waiting:,} messages that are not settled, {logged:,} in the log"
        )

    def _tools(self, options: dict[str, Any]) -> mover.Tools:
        return mover.Tools(conf(), wipe_sets, self._say, options["grace_s"])

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def wipe_sets(shard: int, topics: list[int]) -> None:
    """The heads of these topics in Redis; raises where that is out of reach."""

    async def wipe() -> None:
        client = connect(conf().redis, timeout_s=PATIENCE_S, text=True)
        try:
            building = Building(client, shard)
            for start in range(0, len(topics), PORTION):
                await building.cool(topics[start : start + PORTION])
        finally:
            await client.aclose()

    asyncio.run(wipe())


def _slots(text: str) -> list[int]:
    try:
        return parse_slots(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _add_grace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace-s", type=float, default=GRACE_S, help="how long after the switch the source keeps its rows (10)"
    )

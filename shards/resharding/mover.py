"""The steps of a move, in their order, and the ways back. Each step may be done again from its beginning; what is on
record in the control database is the last one that was finished."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from mqueue.core.conf import Conf
from shards.resharding.cleaning import delete_rows
from shards.resharding.comparing import compare
from shards.resharding.copying import catch_up, copy_all
from shards.resharding.ends import End, topics_of
from shards.resharding.record import STATES, STEPS, Move, MoverError, Record
from shards.resharding.switching import FEW, PORTION, Switch, Wipe, open_target
from shards.resharding.watching import watch

Tell = Callable[[str], None]
SEEN_S = 2.5  # by then every process that reaches the control database looks for the new map ten times a second


@dataclass(frozen=True, slots=True)
class Tools:
    conf: Conf
    wipe: Wipe
    tell: Tell
    grace_s: float


def begin(tools: Tools, slots: Sequence[int], target: int) -> None:
    """Move the slots to the shard, one source after another."""
    with ExitStack() as stack:
        record = _record(tools, stack)
        if unfinished := record.unfinished():
            raise MoverError(f"{unfinished.title} is not finished: `reshard resume` or `reshard undo` it first")
        if not 0 <= target < len(tools.conf.shard_urls):
            raise MoverError(f"there is no shard {target}: DATABASE_URLS names 0 to {len(tools.conf.shard_urls) - 1}")
        owners = record.owners()
        for source in sorted({owners[slot] for slot in slots} - {target}):
            move = record.begin([slot for slot in slots if owners[slot] == source], source, target)
            _run(tools, record, move)


def resume(tools: Tools) -> None:
    with ExitStack() as stack:
        record = _record(tools, stack)
        move = record.unfinished()
        if move is None:
            raise MoverError("there is nothing to resume: no move is unfinished")
        if move.state == "undoing":
            _drop(tools, record, move)
        else:
            _run(tools, record, move)


def undo(tools: Tools) -> None:
    """Before the switch the copy is dropped. After it, the slots move back."""
    with ExitStack() as stack:
        record = _record(tools, stack)
        move = record.unfinished()
        if move is None:
            raise MoverError("there is nothing to undo: no move is unfinished. To move slots back, move them")
        if _is_over_the_hill(tools, move):
            tools.tell("it is switched already: it is finished first, and the slots move back then")
            _run(tools, record, move)
            _run(tools, record, record.begin(list(move.slots), move.target, move.source))
        else:
            _drop(tools, record, record.finish_step(record.take_over(move), "undoing"))


def _record(tools: Tools, stack: ExitStack) -> Record:
    record = Record(tools.conf.control_url)
    stack.callback(record.close)
    return record


def _is_over_the_hill(tools: Tools, move: Move) -> bool:
    source = End(tools.conf.shard_urls[move.source], move.source, move)
    try:
        return move.state in ("switch", "clean") or source.state == "gone"
    finally:
        source.close()


def _run(tools: Tools, record: Record, move: Move) -> None:
    began = time.monotonic()
    move = record.take_over(move)
    tools.tell(move.title)

    def tell(text: str) -> None:
        record.tell(move, text)
        tools.tell(text)

    with ExitStack() as stack:
        source, target = _ends(tools, move, stack)
        for step in STEPS[STATES.index(move.state) :]:
            tell(f"step {step}")
            if step == "watch":
                _begin_to_watch(source, target, tell)
            elif step == "copy":
                copy_all(source, target, tell)
            elif step == "compare":
                _catch_up_and_compare(source, target, tell)
            elif step == "switch":
                time.sleep(max(0.0, began + SEEN_S - time.monotonic()))
                move = Switch(record, source, target, tools.wipe, tools.tell).run(move)
                continue  # on record with the new map
            else:
                _clean(tools, source, target, tell)
            move = record.finish_step(move, step, at_last=step == STEPS[-1])
    tools.tell(f"done: move {move.number}")


def _ends(tools: Tools, move: Move, stack: ExitStack) -> tuple[End, End]:
    source, target = (End(tools.conf.shard_urls[number], number, move) for number in (move.source, move.target))
    stack.callback(source.close)
    stack.callback(target.close)
    return source, target


def _begin_to_watch(source: End, target: End, tell: Tell) -> None:
    leftovers = {row[0] for end in (source, target) for row in topics_of(end)}
    delete_rows(target, sorted(leftovers), tell)  # of an earlier copy, or of when they were here
    target.note("coming")
    source.connection.execute("DELETE FROM moving_change")
    source.note("leaving")
    watch(source)


def _catch_up_and_compare(source: End, target: End, tell: Tell) -> None:
    caught = 0
    while (changes := catch_up(source, target, PORTION)) > FEW:
        caught += changes
    tell(f"caught up with {caught:,} changes")
    tell(f"compared {compare(source, target):,} rows: the same on both sides")


def _clean(tools: Tools, source: End, target: End, tell: Tell) -> None:
    """After a while: until then, a process that has not heard of the new map is still shown what it knew."""
    open_target(target)  # if the one before us did not come to that
    tell(f"switched; the source is cleaned in {tools.grace_s:.0f} s")
    time.sleep(tools.grace_s)
    topics = [row[0] for row in topics_of(source)]
    tools.wipe(source.number, topics)
    delete_rows(source, topics, tell)
    source.connection.execute("UPDATE moving SET state = 'left' WHERE move = %s", [source.move.number])
    target.forget_parts()
    watch(target)


def _drop(tools: Tools, record: Record, move: Move) -> None:
    move = record.take_over(move)
    tools.tell(f"undoing {move.title}")
    with ExitStack() as stack:
        source, target = _ends(tools, move, stack)
        source.forget()
        watch(source)
        source.connection.execute("DELETE FROM moving_change")
        topics = sorted({row[0] for end in (source, target) for row in topics_of(end)})
        delete_rows(target, topics, tools.tell)
        target.forget()
    record.finish_step(move, "undone", at_last=True)
    tools.tell(f"undone: move {move.number}")

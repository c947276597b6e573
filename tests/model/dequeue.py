"""A dequeue: pop, claim, done, the rest cold, answer. The answer comes with the last of them, and is judged there."""

from typing import NamedTuple

from tests.model.offers import offer
from tests.model.state import EVERYTHING, MAX_RETRIES, VISIBILITY, Actor, Op, Ref, Row, World


class Memo(NamedTuple):
    wanted: int
    seen: frozenset[tuple[int, int]] | None  # what it must not pass over; None when order is best effort
    refs: tuple[Ref, ...] = ()
    early: tuple[Row, ...] = ()
    got: tuple[Ref, ...] = ()
    rest_is_cold: bool = False
    place: Ref | None = None  # before it nothing is left


def dequeue(limit: int = 1) -> Op:
    return Op(pop, (limit,))


def pop(world: World, me: Actor) -> Actor:
    memo = Memo(me.args[0], None if world.disturbed else visible(world, me))
    topic, rules = world.topic, world.rules
    if topic is None or topic.horizon is None or (rules.pop_checks_horizon and world.redis_now >= topic.horizon):
        return rest(world, me, memo._replace(rest_is_cold=True))
    if rules.pop_knows_its_run and world.noted != world.run:
        return rest(world, me, memo._replace(rest_is_cold=True))
    old = frozenset((ref, at) for ref, at in topic.taken if at < world.redis_now and rules.taken_returns)
    come = frozenset(ref for ref in topic.soon if ref.due <= world.redis_now)
    moved = come if rules.pop_moves_beyond_bound else frozenset(ref for ref in come if ref < topic.bound)
    ready = topic.ready | moved | {ref for ref, _ in old}
    head = sorted(ref for ref in ready if ref < topic.bound or not rules.pop_stops_at_bound)[: memo.wanted]
    taken = (topic.taken - old) | {(ref, world.redis_now) for ref in head}
    world.topic = topic._replace(ready=ready.difference(head), soon=topic.soon - come, taken=taken)
    filled = len(head) == memo.wanted and rules.cold_after_refs_that_claimed_nothing
    short = len(head) < memo.wanted or not rules.cold_from_the_start_after_a_full_pop
    memo = memo._replace(
        refs=tuple(head),
        rest_is_cold=filled or topic.bound != EVERYTHING,
        place=topic.bound if short else None,
    )
    return me.then(claim, memo) if head else rest(world, me, memo)


def claim(world: World, me: Actor) -> Actor | None:
    memo, rules = me.memo, world.rules
    if rules.claim_waits_for_locks and any(ref.id in world.locked for ref in memo.refs):
        return None
    for ref in memo.refs:
        row = world.rows.get(ref.id)
        if row is None or ref.id in world.locked or (row.epoch != ref.epoch and rules.claim_compares_epoch):
            continue
        if (row.until is not None and rules.claim_compares_state) or (row.expiry or world.now + 1) <= world.now:
            continue
        if row.due > world.now and rules.claim_compares_due:
            memo = memo._replace(early=(*memo.early, row))
        else:
            memo = memo._replace(got=(*memo.got, lease(world, row)))
    return me.then(done, memo)


def done(world: World, me: Actor) -> Actor:
    if world.topic is not None:
        taken = frozenset((ref, at) for ref, at in world.topic.taken if ref not in me.memo.refs)
        world.topic = world.topic._replace(taken=taken)
    if world.rules.early_refs_return:
        for row in me.memo.early:
            offer(world, row)
    return rest(world, me, me.memo._replace(refs=()))


def rest(world: World, me: Actor, memo: Memo) -> Actor:
    if len(memo.got) < memo.wanted and memo.rest_is_cold and world.rules.cold_remainder:
        return me.then(claim_cold, memo)
    return answer(world, me, memo)


def claim_cold(world: World, me: Actor) -> Actor:
    memo = me.memo
    rows = [
        row
        for row in world.visible_rows()
        if row.id not in world.locked and (memo.place is None or not row.ref < memo.place)
    ]
    got = [lease(world, row) for row in rows[: memo.wanted - len(memo.got)]]
    return answer(world, me, memo._replace(got=(*memo.got, *got)))


def lease(world: World, row: Row) -> Ref:
    """What is claimed, at the place where it stood."""
    if row.due > world.now:
        world.fault = f"message {row.id} is handed out before it is due"
    if row.until is not None and row.until > world.now:
        world.fault = f"message {row.id} has two leases"
    leased = row._replace(epoch=row.epoch + 1, attempts=row.attempts + 1, until=world.now + VISIBILITY)
    world.rows[row.id] = leased
    world.handed[row.id] = world.handed.get(row.id, 0) + 1
    if world.handed[row.id] > 1 + MAX_RETRIES:
        world.fault = f"message {row.id} is handed out {world.handed[row.id]} times"
    return row.ref


def answer(world: World, me: Actor, memo: Memo) -> Actor:
    receipts = tuple((ref.id, ref.epoch + 1) for ref in memo.got)
    if memo.seen is not None and not world.disturbed:
        judge(world, me, memo)
    return me.done(receipts=me.receipts + receipts)


def judge(world: World, me: Actor, memo: Memo) -> None:
    behind = sorted(world.rows[ident].ref for ident, _ in (memo.seen or frozenset()) & visible(world, me))
    if not behind:
        return
    if memo.got and behind[0] < max(memo.got):
        world.fault = f"message {max(memo.got).id} overtakes {behind[0].id}"
    elif len(memo.got) < memo.wanted:
        world.fault = f"a dequeue has room left, and message {behind[0].id} stays behind"


def visible(world: World, me: Actor) -> frozenset[tuple[int, int]]:
    """Answered, waiting, due by both clocks (or when it was written), and in no other dequeue's hands."""
    hands = {
        (ref.id, ref.epoch)
        for actor in world.actors
        if actor.name != me.name and isinstance(actor.memo, Memo)
        for ref in actor.memo.refs
    }
    return frozenset(
        (row.id, row.epoch)
        for row in world.visible_rows()
        if row.answered
        and (row.due <= world.redis_now or row.due_when_written)
        and row.id not in world.locked
        and (row.id, row.epoch) not in hands
    )

"""The prefetcher: looks ahead, fills, trims, pages, makes cold, and notices that Redis is not what it was."""

from typing import Any

from tests.model.state import EVERYTHING, NOTHING, Actor, Op, Topic, World


def look_ahead(window: int = 2) -> Op:
    return Op(announce, (window,))


def announce(world: World, me: Actor) -> Actor:
    topic = world.topic or Topic()
    horizon = world.redis_now + me.args[0]
    world.topic = topic._replace(building=(me.token, horizon))
    return me.then(read_ahead, (topic.horizon, horizon))


def read_ahead(world: World, me: Actor) -> Actor:
    """On a topic that was cold, what is due already is left to the fill."""
    old, horizon = me.memo
    start = world.now + 1 if old is None or not world.rules.look_ahead_reads_from_old_horizon else old
    refs = frozenset(row.ref for row in world.waiting() if start <= row.due < horizon)
    return me.then(set_horizon, (horizon, refs))


def set_horizon(world: World, me: Actor) -> Actor:
    horizon, refs = me.memo
    topic = world.topic
    mine = topic is not None and topic.building is not None and topic.building[0] == me.token
    if mine or not world.rules.look_ahead_checks_token:
        topic = topic or Topic()
        world.topic = topic._replace(soon=topic.soon | refs, horizon=horizon, building=None)
    return me.done()


def fill(limit: int = 9) -> Op:
    return Op(begin_fill, (limit,))


def begin_fill(world: World, me: Actor) -> Actor:
    topic = world.topic
    if topic is None or topic.horizon is None:
        if world.rules.fill_needs_horizon:
            return me.done()
        topic = topic or Topic()
    if topic.bound == EVERYTHING:
        return me.done()
    world.topic = topic._replace(fill=me.token)
    return me.then(read_fill, (topic.bound, world.redis_now))


def read_fill(world: World, me: Actor) -> Actor:
    """What Redis calls due must be read as well, since offers of it were dropped."""
    bound, redis_now = me.memo
    due_by = max(world.now, redis_now) if world.rules.fill_reads_by_both_clocks else world.now
    rows = [row.ref for row in world.waiting(due_by=due_by) if not row.ref < bound]
    page = rows[: me.args[0]]
    return me.then(end_fill, (frozenset(page), page[-1].just_past if len(rows) > len(page) else EVERYTHING))


def end_fill(world: World, me: Actor) -> Actor:
    refs, bound = me.memo
    if world.topic is not None and _may_end(world, world.topic.fill, me):
        world.topic = world.topic._replace(ready=world.topic.ready | refs, bound=bound, fill=None)
    return me.done()


def _may_end(world: World, token: Any, me: Actor) -> bool:
    if not world.rules.fill_checks_token:
        return True
    return token == me.token or (token is not None and not world.rules.fill_checks_whose_token)


def trim(keep: int = 1) -> Op:
    return Op(cut, (keep,))


def cut(world: World, me: Actor) -> Actor | None:
    topic, rules = world.topic, world.rules
    if topic is None or len(topic.ready) <= me.args[0]:
        return None
    refs = sorted(topic.ready)
    first = tuple(refs[me.args[0]])[:3]
    world.topic = topic._replace(
        ready=frozenset(refs[: me.args[0]]),
        bound=min(topic.bound, first) if rules.trim_lowers_bound else topic.bound,
        fill=None if rules.trim_removes_token else topic.fill,
    )
    return me.done()


def read_page(world: World, me: Actor) -> Actor:
    if not world.rules.page_from_the_start:
        return me.done()
    return me.then(add_page, frozenset(row.ref for row in world.visible_rows()))


def add_page(world: World, me: Actor) -> Actor:
    if world.topic is not None:
        before = {ref for ref in me.memo if ref < world.topic.bound}
        world.topic = world.topic._replace(ready=world.topic.ready | before)
    return me.done()


def cool(world: World, me: Actor) -> Actor:
    if world.topic is not None:
        kept = Topic(bound=NOTHING, building=world.topic.building, fill=world.topic.fill)
        world.topic = None if world.rules.cooling_removes_tokens else kept
    return me.done()


def check_run(world: World, me: Actor) -> Actor:
    """The note lies in Redis beside the keys, so that a newborn prefetcher can tell as well."""
    if world.noted != world.run and world.rules.new_generation:
        world.topic, world.noted = None, world.run
        world.generation += 1
        world.disturbed = False
    return me.done()


PAGE, COOL, CHECK = (Op(step) for step in (read_page, cool, check_run))

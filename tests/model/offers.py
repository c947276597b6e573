"""The offer, and the answer that follows it.

An answer is said as early as it may be, together with the offer: that asks more of the order than a later one.
"""

from tests.model.state import Actor, Row, World


def offer(world: World, row: Row) -> None:
    """One Lua call. It adds or does nothing; it never removes."""
    topic, rules = world.topic, world.rules
    if topic is None or (world.generation != 1 and not rules.calls_read_the_generation):
        return
    if row.due <= world.redis_now or (row.due_when_written and rules.due_when_written_stays_due):
        if row.ref < topic.bound or (topic.fill is not None and rules.fill_gathers_offers):
            world.topic = topic._replace(ready=topic.ready | {row.ref})
        return
    horizon = -1 if topic.horizon is None else topic.horizon
    if topic.building is not None and rules.look_ahead_gathers_offers:
        horizon = max(horizon, topic.building[1])
    if row.due < horizon:
        world.topic = topic._replace(soon=topic.soon | {row.ref})


def wrote(world: World, row: Row) -> Row:
    row = row._replace(due_when_written=row.due <= world.now, answered=False)
    world.rows[row.id] = row
    return row


def answered(world: World, row: Row) -> None:
    now = world.rows.get(row.id)
    if now is not None and now.epoch == row.epoch and now.until is None:
        world.rows[row.id] = now._replace(answered=True)


def offer_and_answer(world: World, me: Actor) -> Actor:
    offer(world, me.memo)
    answered(world, me.memo)
    return me.done()


def then_offer(world: World, me: Actor, row: Row, *, offers: bool) -> Actor:
    """What follows a commit: the offer, unless a broken twin forgets it."""
    if offers:
        return me.then(offer_and_answer, row)
    answered(world, row)
    return me.done()

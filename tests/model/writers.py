"""Those who make rows wait, move them and remove them."""

from tests.model.offers import answered, offer_and_answer, then_offer, wrote
from tests.model.state import Actor, Op, Row, World


def enqueue(ident: int, priority: int = 0, delay: int = 0, ttl: int | None = None) -> Op:
    return Op(insert, (ident, priority, delay, ttl))


def insert(world: World, me: Actor) -> Actor:
    ident, priority, delay, ttl = me.args
    due = world.now + delay
    row = wrote(world, Row(ident, priority, due, expiry=None if ttl is None else due + ttl))
    if not world.rules.offer_before_answer:
        answered(world, row)
    return me.then(offer_and_answer, row)


def enqueue_unreached(ident: int, priority: int = 0) -> Op:
    """Redis does not answer the offer; the topic is made cold once it does again."""
    return Op(insert_unreached, (ident, priority))


def insert_unreached(world: World, me: Actor) -> Actor:
    ident, priority = me.args
    wrote(world, Row(ident, priority, world.now))
    return me.then(make_cold_and_answer, world.rows[ident])


def make_cold_and_answer(world: World, me: Actor) -> Actor:
    if world.rules.failed_offer_makes_cold:
        world.topic = None
    answered(world, me.memo)
    return me.done()


def patch(ident: int, priority: int, delay: int | None = None) -> Op:
    return Op(patch_row, (ident, priority, delay))


def patch_row(world: World, me: Actor) -> Actor:
    ident, priority, delay = me.args
    row = world.rows.get(ident)
    if row is None or row.until is not None:
        return me.done()
    due = row.due if delay is None else world.now + delay
    row = row._replace(priority=priority, due=due, epoch=row.epoch + world.rules.patch_raises_epoch)
    return then_offer(world, me, wrote(world, row), offers=world.rules.offer_after_patch)


def locked_patch(ident: int) -> Op:
    """A transaction that locks a row, and then is rolled back."""
    return Op(lock_row, (ident,))


def lock_row(world: World, me: Actor) -> Actor:
    world.locked |= {me.args[0]}
    return me.then(roll_back)


def roll_back(world: World, me: Actor) -> Actor:
    world.locked -= {me.args[0]}
    return me.done()


def cancel(ident: int) -> Op:
    return Op(cancel_row, (ident,))


def cancel_row(world: World, me: Actor) -> Actor:
    if me.args[0] in world.rows:
        del world.rows[me.args[0]]
        world.ended[me.args[0]] = "cancelled"
    return me.done()


def replay(ident: int) -> Op:
    return Op(replay_dead, (ident,))


def replay_dead(world: World, me: Actor) -> Actor | None:
    row = world.dead.pop(me.args[0], None)
    if row is None:
        return None
    world.handed.pop(row.id, None)
    epoch = row.epoch + world.rules.replay_raises_epoch
    row = wrote(world, row._replace(until=None, expiry=None, due=world.now, attempts=0, epoch=epoch))
    return then_offer(world, me, row, offers=world.rules.offer_after_replay)

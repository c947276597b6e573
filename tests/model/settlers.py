"""Those who end leases, and messages: ack, nack, release, the lapse of a lease, death by ttl."""

from tests.model.offers import then_offer, wrote
from tests.model.state import MAX_RETRIES, Actor, Op, Row, World


def die(world: World, row: Row, reason: str) -> None:
    world.dead[row.id] = row
    del world.rows[row.id]
    if reason == "max_retries" and world.handed.get(row.id, 0) != 1 + MAX_RETRIES:
        world.fault = f"message {row.id} died after {world.handed.get(row.id, 0)} hand-outs"


def return_or_die(world: World, row: Row, due: int) -> Row | None:
    """A lease ends without an ack: the row as it waits, or None when its attempts are used up."""
    if row.attempts > MAX_RETRIES and world.rules.attempts_end:
        die(world, row, "max_retries")
        return None
    return wrote(world, row._replace(until=None, due=due))


def held(world: World, me: Actor) -> Row | None:
    """The row of the oldest receipt where its lease lives; a stale one settles nothing."""
    ident, epoch = me.receipts[0]
    row = world.rows.get(ident)
    if row is None or row.until is None or row.until <= world.now:
        return None
    if row.epoch != epoch:
        if world.rules.settle_compares_epoch:
            return None
        world.fault = f"the receipt {ident}@{epoch} settled the lease {ident}@{row.epoch}"
    return row


def nack(delay: int = 0) -> Op:
    return Op(nack_lease, (delay,))


def ack_lease(world: World, me: Actor) -> Actor:
    if me.receipts and (row := held(world, me)):
        del world.rows[row.id]
        world.ended[row.id] = "acked"
    return me.done(receipts=me.receipts[1:])


def nack_lease(world: World, me: Actor) -> Actor:
    row = held(world, me) if me.receipts else None
    me = me._replace(receipts=me.receipts[1:])
    row = row and return_or_die(world, row, world.now + me.args[0])
    return then_offer(world, me, row, offers=world.rules.offer_after_nack) if row else me.done()


def release_lease(world: World, me: Actor) -> Actor:
    row = held(world, me) if me.receipts else None
    me = me._replace(receipts=me.receipts[1:])
    if row is None:
        return me.done()
    world.handed[row.id] -= 1
    back = row._replace(until=None, due=world.now, attempts=row.attempts - world.rules.release_returns_the_attempt)
    return then_offer(world, me, wrote(world, back), offers=world.rules.offer_after_release)


def lapse_lease(world: World, me: Actor) -> Actor | None:
    over = [row for row in world.rows.values() if row.until is not None and row.until <= world.now]
    if not over:
        return None
    row = min(over)
    if row.expiry is not None and row.expiry <= world.now:
        die(world, row, "expired")
        return me.done()
    back = return_or_die(world, row, row.until or 0)
    return then_offer(world, me, back, offers=world.rules.offer_after_lapse) if back else me.done()


def bury_expired(world: World, me: Actor) -> Actor | None:
    over = [row for row in world.waiting() if row.expiry is not None and row.expiry <= world.now]
    if not over:
        return None
    die(world, over[0], "expired")
    return me.done()


ACK, RELEASE, LAPSE, BURY = (Op(step) for step in (ack_lease, release_lease, lapse_lease, bury_expired))

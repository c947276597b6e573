"""What the lease daemon does of itself in a service, where a test needs it done now."""

from daemons.leases import LeaseDaemon
from mqueue.engine.engine import Engine
from shards.pools import Database


async def end_overdue(engine: Engine, shard: Database) -> None:
    """All of it, not only as much as one look takes: leases of earlier tests may have lapsed by now too."""
    daemon = LeaseDaemon(shard, engine.hot[shard], engine.settings.topic)
    while not await daemon.run_once():
        pass

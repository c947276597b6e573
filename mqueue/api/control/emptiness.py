"""Whether a namespace, or a topic, has messages: what waits, what somebody holds, and what is dead."""

from mqueue.api.bridge import bridge
from mqueue.api.plane import Plane
from mqueue.core.errors import NotEmpty
from mqueue.core.messages import StatsPage


def require_empty(namespace: str, topic: str | None = None) -> None:
    if bridge().call(lambda plane: _has_messages(plane, namespace, topic)):
        raise NotEmpty


async def _has_messages(plane: Plane, namespace: str, topic: str | None) -> bool:
    """As `/stats` has it."""
    after = ""
    while True:
        depths = await plane.engine.look.stats(StatsPage(namespace=namespace, topic=topic, after=after))
        if any(depth.ready or depth.scheduled or depth.leased or depth.dead for depth in depths):
            return True
        if topic is not None or not depths:
            return False
        after = depths[-1].topic

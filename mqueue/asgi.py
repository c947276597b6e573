"""One process serves both: the data plane's paths go to its own application, everything else to Django."""

import asyncio
import gc
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqueue.settings")

from django.core.asgi import get_asgi_application

from mqueue.api.bodies import Bodies
from mqueue.api.bridge import bridge
from mqueue.api.fastlane import FastLane, Receive, Scope, Send
from mqueue.api.heads import Heads
from mqueue.api.lifespan import lifespan
from mqueue.api.wire import Wire, keep_closing_idle
from mqueue.core.conf import conf

django = get_asgi_application()
fast_lane = FastLane(conf()) if conf().api.fast_lane else None
wires: set[Wire] = set()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        scope.get("state", {}).update(
            lane=fast_lane, wires=wires, heads=Heads(), bodies=Bodies(conf().api.bodies_bytes)
        )
        await lifespan(receive, send, open_plane, close_plane)
    elif fast_lane and fast_lane.serves(scope["path"]):
        await fast_lane(scope, receive, send)
    else:
        await django(scope, receive, send)  # type: ignore[arg-type]


async def open_plane() -> None:
    spare_the_collector()
    if fast_lane:
        await fast_lane.open()
        bridge().lend(fast_lane.plane)
        keep_closing_idle(wires)
    else:
        await asyncio.to_thread(bridge().open)


def spare_the_collector() -> None:
    """What was imported lives as long as we do, and requests make few cycles: a look at everything took a quarter of
    the time of a settle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def close_plane() -> None:
    if fast_lane:
        await bridge().take_back()
        await fast_lane.close()
    else:
        await asyncio.to_thread(bridge().close)

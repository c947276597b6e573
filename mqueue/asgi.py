"""One process serves both: the data plane's paths go to its own application, everything else to Django."""

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqueue.settings")

from django.core.asgi import get_asgi_application

from mqueue.api.fastlane import FastLane, Receive, Scope, Send
from mqueue.core.conf import conf

django = get_asgi_application()
fast_lane = FastLane(conf())


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif fast_lane.serves(scope["path"]):
        await fast_lane(scope, receive, send)
    else:
        await django(scope, receive, send)  # type: ignore[arg-type]


async def lifespan(receive: Receive, send: Send) -> None:
    steps: dict[str, Any] = {"lifespan.startup": fast_lane.open, "lifespan.shutdown": fast_lane.close}
    while True:
        kind = (await receive())["type"]
        await steps[kind]()
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return

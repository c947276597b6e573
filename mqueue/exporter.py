"""METRICS_PORT: /metrics without a token, by a process of its own that neither serves the queue nor imports Django."""

from dataclasses import replace

from mqueue.api.exposition import Exposition
from mqueue.api.fastlane import Receive, Scope, Send
from mqueue.api.handlers import Answer
from mqueue.api.lifespan import lifespan
from mqueue.api.problems import problem
from mqueue.core import seats
from mqueue.core.conf import conf
from mqueue.core.errors import MethodNotAllowed, NotFound
from shards.cluster import Cluster

CONF = replace(conf(), pool=replace(conf().pool, min_size=1, max_size=2))  # a count, and a look whether it is well
CONF.metrics.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
seats.mend(CONF.metrics.folder)
cluster = Cluster(CONF)
exposition = Exposition(CONF, cluster, CONF.metrics.folder)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send, cluster.open, close)
        return
    status, headers, body = await answer(scope)
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    pairs.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def answer(scope: Scope) -> Answer:
    if scope["path"] not in ("/", "/metrics"):
        return problem(NotFound(f"There is nothing at {scope['path']}"))
    if scope["method"] not in ("GET", "HEAD"):
        return problem(MethodNotAllowed("This path takes GET, HEAD", headers={"allow": "GET, HEAD"}))
    if scope["path"] == "/":
        return 200, {"content-type": "text/plain"}, b"mqueue: see /metrics\n"
    return await exposition.answer(dict(scope["headers"]).get(b"accept", b"").decode("latin-1"))


async def close() -> None:
    await exposition.close()
    await cluster.close()

"""python -m mqueue.worker WHAT SOCKET PIPE: one worker of `mqueue.serve`, on a listening socket that it inherits."""

import argparse
import asyncio
import contextlib
import os
import resource
import socket

import uvicorn
from uvicorn.config import Config

from mqueue.core.conf import conf

DRAIN_S = 8  # for requests that are under way when we are told to stop
LET_IN_S = 0.1  # who has begun to connect when we are told to stop, is let in
APPLICATIONS = {
    "api": ("mqueue.asgi:application", "mqueue.api.wire:Wire"),
    "metrics": ("mqueue.exporter:application", "httptools"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mqueue.worker", description=__doc__)
    parser.add_argument("what", choices=APPLICATIONS)
    parser.add_argument("socket", type=int, help="the number of the file")
    parser.add_argument("pipe", type=int, help="where to say that it serves")
    chosen = parser.parse_args()
    _allow_many_connections()
    application, protocol = APPLICATIONS[chosen.what]
    api = conf().api
    config = Config(
        application,
        loop="uvloop",
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
        ssl_certfile=api.tls_cert,
        ssl_keyfile=api.tls_key,
    )
    Server(config, chosen.pipe).run(sockets=[socket.socket(fileno=chosen.socket)])


class Server(uvicorn.Server):
    def __init__(self, config: Config, word: int) -> None:
        super().__init__(config)
        self._word = word

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        with contextlib.suppress(BrokenPipeError):  # nobody has waited for it
            os.write(self._word, b"1")
        os.close(self._word)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Whoever lies in the queue of a socket when its last holder closes it would be reset: so they are let in.
        Nobody else begins to connect when all leave (`let_nobody_begin`)."""
        self.lifespan.state["draining"] = True
        await asyncio.sleep(LET_IN_S)
        await super().shutdown(sockets)


def _allow_many_connections() -> None:
    """Five thousand waiting polls are five thousand files; the soft limit is often 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()

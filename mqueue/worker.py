"""python -m mqueue.worker WHAT SOCKET: one worker of `mqueue.serve`, on a listening socket that it inherits."""

import argparse
import resource
import socket

import uvicorn
from uvicorn.config import Config

from mqueue.core.conf import conf

DRAIN_S = 8  # for requests that are under way when we are told to stop
APPLICATIONS = {
    "api": ("mqueue.asgi:application", "mqueue.api.wire:Wire"),
    "metrics": ("mqueue.exporter:application", "httptools"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mqueue.worker", description=__doc__)
    parser.add_argument("what", choices=APPLICATIONS)
    parser.add_argument("socket", type=int, help="the number of the file")
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
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=chosen.socket)])


def _allow_many_connections() -> None:
    """Five thousand waiting polls are five thousand files; the soft limit is often 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()

"""python -m mqueue.serve api | metrics: uvicorn on uvloop, in as many workers as configured, each on its own socket.

The parent holds the listening sockets and serves nothing: a worker that dies is replaced, and who connects meanwhile
waits in its queue rather than being refused. The kernel deals connections out to the sockets (SO_REUSEPORT); a single
shared one would give most of a burst to whichever worker wakes first.

SIGHUP renews the workers one after another, with the code and the environment of now, and without a failed request.
SIGTERM drains. `MQUEUE_READY_FILE` names a file that is written when a renewal is over: empty, or with what went wrong.
"""

import argparse
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import FrameType

from mqueue.core.conf import conf
from mqueue.place import Place

BACKLOG = 4096
LOOK_EVERY_S = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mqueue.serve", description="Serve the API, or its metrics.")
    parser.add_argument("what", choices=["api", "metrics"])
    chosen = parser.parse_args()
    api = conf().api
    if chosen.what == "api":
        sockets = [_listen(api.host, api.port) for _ in range(api.workers)]
    else:
        sockets = [_listen(api.metrics_host, api.metrics_port)]
    return Parent(chosen.what, sockets).run()


class Parent:
    def __init__(self, what: str, sockets: list[socket.socket]) -> None:
        self._stopping = self._renewing = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._renew)
        self._places = [Place(what, line) for line in sockets]

    def run(self) -> int:
        while not self._stopping:
            self._look()
            if self._renewing:
                self._renewing = False
                _tell(self._renew_all())
        for place in self._places:
            place.close()
        for place in self._places:
            place.wait()
        return 0

    def _look(self) -> None:
        time.sleep(LOOK_EVERY_S)
        for place in self._places:
            place.look()

    def _renew_all(self) -> str:
        """One after another; a new worker that does not begin to serve ends it, and the old one stays."""
        for place in self._places:
            place.renew()
            while place.is_renewing and not self._stopping:
                self._look()
            if place.trouble:
                return place.trouble
        while not (self._stopping or all(place.is_quiet for place in self._places)):
            self._look()
        return ""

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _renew(self, number: int, frame: FrameType | None) -> None:
        self._renewing = True


def _listen(host: str, port: int) -> socket.socket:
    line = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    line.bind((host, port))
    line.listen(BACKLOG)
    return line


def _tell(trouble: str) -> None:
    if path := os.environ.get("MQUEUE_READY_FILE"):
        draft = Path(f"{path}.new")
        draft.write_text(trouble)
        draft.replace(path)  # whole or not at all


if __name__ == "__main__":
    sys.exit(main())

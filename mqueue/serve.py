"""python -m mqueue.serve api | metrics: uvicorn on uvloop, in as many workers as configured, each on its own socket.

The parent holds the listening sockets and serves nothing: a worker that dies is replaced, and who connects meanwhile
waits in its queue rather than being refused. The kernel deals connections out to the sockets (SO_REUSEPORT); a single
shared one would give most of a burst to whichever worker wakes first.
"""

import argparse
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

from mqueue.core.conf import conf

BACKLOG = 4096
KILL_AFTER_S = 10.0  # a worker drains for 8
LOOK_EVERY_S = 0.1
RESTART_DELAY_S = 0.5  # for a worker that did not live long


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
        self._what, self._sockets = what, sockets
        self._workers = [self._start(line) for line in sockets]
        self._born = [time.monotonic() for _ in sockets]
        self._stopping = False

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._stopping:
            time.sleep(LOOK_EVERY_S)
            for place, worker in enumerate(self._workers):
                if worker.poll() is not None and not self._stopping:
                    self._replace(place)
        deadline = time.monotonic() + KILL_AFTER_S
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            try:
                worker.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
        return 0

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _replace(self, place: int) -> None:
        if time.monotonic() - self._born[place] < RESTART_DELAY_S:
            return
        _say(f"worker {self._workers[place].pid} ended with {self._workers[place].returncode}; starting another")
        self._workers[place], self._born[place] = self._start(self._sockets[place]), time.monotonic()

    def _start(self, line: socket.socket) -> "subprocess.Popen[bytes]":
        descriptor = line.fileno()
        command = [sys.executable, "-m", "mqueue.worker", self._what, str(descriptor)]
        return subprocess.Popen(command, pass_fds=[descriptor])


def _listen(host: str, port: int) -> socket.socket:
    line = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    line.bind((host, port))
    line.listen(BACKLOG)
    return line


def _say(text: str) -> None:
    print(f"mqueue.serve: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

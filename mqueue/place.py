"""One listening socket and the worker that serves it; while it is renewed, the one that comes and the one that leaves.

The parent keeps the socket open all the time, so who connects meanwhile waits in its queue, and is neither refused nor
reset: whichever worker is there takes him.
"""

import ctypes
import os
import select
import socket
import struct
import subprocess
import sys
import time

KILL_AFTER_S = 10.0  # a worker drains for 8
READY_WITHIN_S = 30.0
RESTART_DELAY_S = 0.5  # for a worker that did not live long

SO_ATTACH_FILTER = 26  # Linux; the module `socket` does not name it
# In the kernel's classic packet filter: load the flags of TCP, keep SYN and ACK, drop what is a SYN alone, let pass.
WITHOUT_SYN = [(0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF)]


class Worker:
    """A process of `mqueue.worker`, and the pipe by which it says that it serves."""

    def __init__(self, what: str, line: socket.socket) -> None:
        self._word, its_end = os.pipe()
        descriptor = line.fileno()
        command = [sys.executable, "-m", "mqueue.worker", what, str(descriptor), str(its_end)]
        self._process = subprocess.Popen(command, pass_fds=[descriptor, its_end])
        os.close(its_end)
        self._since = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """How it ended; None while it lives."""
        return self._process.poll()

    @property
    def age_s(self) -> float:
        """Since it was started, or since it was asked to leave."""
        return time.monotonic() - self._since

    def serves(self) -> bool:
        return bool(select.select([self._word], [], [], 0)[0]) and os.read(self._word, 1) == b"1"

    def ask_to_leave(self) -> "Worker":
        self._since = time.monotonic()
        self._process.terminate()
        return self

    def kill(self) -> None:
        self._process.kill()

    def forget(self) -> None:
        self._process.wait()
        os.close(self._word)


class Place:
    def __init__(self, what: str, line: socket.socket) -> None:
        self._what, self._line = what, line
        self._worker = Worker(what, line)
        self._coming: Worker | None = None
        self._leaving: list[Worker] = []
        self.trouble = ""  # of the last renewal

    @property
    def is_renewing(self) -> bool:
        return self._coming is not None

    @property
    def is_quiet(self) -> bool:
        """Nobody leaves any more."""
        return not self._leaving

    def renew(self) -> None:
        """Another worker is started; only when it serves is the one that is there asked to leave."""
        self.trouble = ""
        self._coming = Worker(self._what, self._line)

    def look(self) -> None:
        """What died is replaced, what has come takes over, what does not leave is killed."""
        if self._worker.code is not None and self._worker.age_s > RESTART_DELAY_S:
            say(f"worker {self._worker.pid} ended with {self._worker.code}; starting another")
            self._worker.forget()
            self._worker = Worker(self._what, self._line)
        if self._coming:
            self._look_at_the_coming(self._coming)
        self._look_at_the_leaving()

    def close(self) -> None:
        """Nobody else is let in; those who are under way are served to their end, on all places at once."""
        let_nobody_begin(self._line)
        self._line.close()
        self._leaving += [worker.ask_to_leave() for worker in (self._worker, self._coming) if worker]
        self._coming = None

    def wait(self) -> None:
        """Until all of its workers have ended."""
        while self._leaving:
            self._look_at_the_leaving()
            time.sleep(0.02)

    def _look_at_the_leaving(self) -> None:
        for worker in list(self._leaving):
            if worker.code is None and worker.age_s > KILL_AFTER_S:
                worker.kill()
            if worker.code is not None:
                worker.forget()
                self._leaving.remove(worker)

    def _look_at_the_coming(self, coming: Worker) -> None:
        if coming.code is None and coming.serves():
            say(f"worker {coming.pid} serves; worker {self._worker.pid} leaves")
            self._leaving.append(self._worker.ask_to_leave())
            self._worker, self._coming = coming, None
        elif coming.code is not None or coming.age_s > READY_WITHIN_S:
            self.trouble = f"worker {coming.pid} did not begin to serve; worker {self._worker.pid} stays"
            say(self.trouble)
            coming.kill()
            coming.forget()
            self._coming = None


def let_nobody_begin(line: socket.socket) -> None:
    """Between the last accept of a worker and its close, somebody could still connect, and would be reset with a
    request in his hands. A connection whose first packet is dropped comes again in a second, and is refused then."""
    if sys.platform == "linux":
        steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in WITHOUT_SYN))
        program = struct.pack("HP", len(WITHOUT_SYN), ctypes.addressof(steps))
        line.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def say(text: str) -> None:
    print(f"mqueue.serve: {text}", file=sys.stderr, flush=True)

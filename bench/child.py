"""Loads run in processes of their own: the driver starts one, takes its readings when told to, and reads its result."""

import json
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from bench.observe import Observer
from bench.service import Service
from bench.speak import BEGIN
from mqueue.core.conf import ROOT

WORDS = 300  # of an error, as many characters are told


class LoadError(Exception):
    """A load did not end well; the message is its own."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: messages a second, what the load says of it, and what it cost."""

    rate: float
    result: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)


def load(service: Service, seconds: float, script: str, **orders: Any) -> Sample:
    """Run one of the scripts against the service, over HTTP."""
    spec = {"ports": service.ports, "token": service.token, "seconds": seconds, "warm": min(1.0, seconds / 4)}
    return run(service, "bench.load", spec | {"script": script} | orders, service.conf.shard_urls[0])


def run(service: Service, module: str, spec: dict[str, Any], database: str, python: str = sys.executable) -> Sample:
    """Run a module that speaks the protocol of `bench.load`, and observe its measured part."""
    command = [python, "-m", module]
    with tempfile.TemporaryFile("w+") as errors:  # a pipe would stop whoever has much to say
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child:
            try:
                sample = converse(child, json.dumps(spec), Observer(service, database, child.pid))
            finally:
                child.kill()
        if sample is None:
            errors.seek(0)
            raise LoadError(last_words(errors.read()))
    return sample


def converse(child: "subprocess.Popen[str]", spec: str, observer: Observer) -> Sample | None:
    """Give it its orders, and wait for its two lines."""
    assert child.stdin
    assert child.stdout
    child.stdin.write(f"{spec}\n")
    child.stdin.flush()
    with closing(observer):
        for line in child.stdout:
            if line == BEGIN:
                observer.begin()
            elif line.startswith("{"):
                result = json.loads(line)
                return Sample(result.get("rate", 0.0), result, observer.end(result.get("messages", 0)))
    return None


def last_words(errors: str) -> str:
    """The line that says what was wrong: the last that is neither empty nor a frame around it."""
    lines = [line for line in errors.splitlines() if line.strip(" |+-")]
    return lines[-1].strip(" |")[:WORDS] if lines else "it ended without a word"

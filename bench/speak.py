"""How a load speaks with its driver: orders in one line of JSON, `begin` once it is warm, its result in one line."""

import json
import sys
from collections.abc import Callable
from typing import Any

BEGIN = "begin\n"


def obey(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read the orders, do the work, tell the result, and stay until the driver has taken its last reading of us."""
    result = work(json.loads(sys.stdin.readline()))
    print(json.dumps(result), flush=True)
    sys.stdin.read()


def begin() -> None:
    """The measured part begins."""
    sys.stdout.write(BEGIN)
    sys.stdout.flush()

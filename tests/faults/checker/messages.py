"""The messages of the load. What one says follows from its tag: whoever gets it can tell whether it is whole."""

from random import Random
from typing import Any
from zlib import crc32

from tests.faults.checker.times import SECOND, now

NAMESPACE = "chaos"
PRIORITIES = (0, 1, 5, 5, 5, 5, 9, 255)
LARGE_ONE_IN, LARGE = 150, 20_000


def body_of(tag: str) -> dict[str, str]:
    chance = crc32(tag.encode())
    return {"tag": tag, "pad": "x" * (LARGE if chance % LARGE_ONE_IN == 0 else chance % 200)}


def plain(rng: Random, topic: str, tag: str) -> dict[str, Any]:
    message: dict[str, Any] = {
        "namespace": NAMESPACE,
        "topic": topic,
        "body": body_of(tag),
        "priority": rng.choice(PRIORITIES),
        "max_retries": rng.choice((0, 1, 3, 3, 8)),
        "retry": {"strategy": rng.choice(("exponential", "linear", "constant")), "base_ms": rng.choice((20, 100, 400)),
                  "max_ms": 1_000, "jitter": rng.choice((0, 0.25))},
    }  # fmt: skip
    if rng.random() < 0.15:
        message["delay_ms"] = rng.randrange(20, 3_000)
    if rng.random() < 0.04:
        message["ttl_ms"] = rng.randrange(300, 4_000)
    if rng.random() < 0.2:
        message["headers"] = {"about": "chaos"}
    return message


def keyed(rng: Random, topics: list[str]) -> dict[str, Any]:
    """Of a few keys that all producers choose from at the time. All of it follows from the key but for the topic."""
    key = f"key-{now() // SECOND}-{rng.randrange(4)}"
    chance = crc32(key.encode())
    return {
        "namespace": NAMESPACE,
        "topic": topics[(chance + (rng.random() < 0.3)) % len(topics)],
        "body": body_of(key),
        "priority": PRIORITIES[chance % len(PRIORITIES)],
        "max_retries": 8,
        "idempotency_key": key,
        "retry": {"strategy": "constant", "base_ms": 50},
    }


def tag_of(delivered: dict[str, Any]) -> str:
    body = delivered.get("body")
    return str(body["tag"]) if isinstance(body, dict) and "tag" in body else ""

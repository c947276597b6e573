"""Short ways to make messages and to look at them."""

from typing import Any

import msgspec

from mqueue.core.messages import Message
from mqueue.engine.engine import Engine
from shards.routing import SLOTS, slot_of


def message(namespace: str = "default", topic: str = "t", body: Any = 1, **fields: Any) -> Message:
    return Message(namespace, topic, body=msgspec.Raw(msgspec.json.encode(body)), **fields)


async def send(engine: Engine, *messages: Message) -> list[int]:
    result = await engine.enqueue("producer", messages)
    assert result.error is None
    return [message_id for message_id in result.ids if message_id is not None]


def key_for(namespace: str, *, beside: bool) -> str:
    """A key on the shard of topic `t`, or on the other of the two."""
    home = slot_of(namespace, "t") * 2 // SLOTS
    return next(key for n in range(1000) if (slot_of(namespace, key := f"k{n}") * 2 // SLOTS == home) is beside)

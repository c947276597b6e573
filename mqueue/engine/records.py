"""A message of a buffered topic on its way: as it lies in the log and in the buffer until it is committed."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from mqueue.core.messages import Message
from mqueue.engine.inserts import LONG_AGO, Row, as_json

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Record(Struct, frozen=True, array_like=True, gc=False):
    """Fields are added at the end, with a default: old and new code read each other's logs."""

    id: int
    namespace: str
    topic: str
    topic_number: int
    priority: int
    at: datetime | None
    ttl_ms: int | None
    is_json: bool
    payload: bytes
    headers: str | None
    traceparent: str | None
    max_retries: int | None
    retry: str | None
    producer: str

    def row(self) -> Row:
        """As a commit takes it."""
        return (
            self.id,
            self.topic_number,
            self.priority,
            self.at,
            None,
            self.ttl_ms,
            self.is_json,
            self.payload,
            self.headers,
            self.traceparent,
            self.max_retries,
            self.retry,
            None,
            self.producer,
            None,
        )


def record_of(number: int, topic_number: int, message: Message, producer: str, now_us: int) -> Record:
    """A delay counts from now, however long it takes until the commit."""
    at = message.deliver_after and max(message.deliver_after, LONG_AGO)
    if message.delay_ms:
        at = EPOCH + timedelta(microseconds=now_us, milliseconds=message.delay_ms)
    return Record(
        number,
        message.namespace,
        message.topic,
        topic_number,
        message.priority,
        at,
        message.ttl_ms,
        message.is_json,
        message.content,
        as_json(message.headers),
        message.traceparent,
        message.max_retries,
        as_json(message.retry),
        producer,
    )


encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Record)


def decode(body: bytes) -> Record:
    return _decoder.decode(body)


def names(records: Iterable[Record]) -> dict[tuple[str, str], int]:
    """The topics of these, and their numbers."""
    return {(record.namespace, record.topic): record.topic_number for record in records}

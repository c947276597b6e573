"""From bytes to typed requests. A bad one is refused with every index and field that is wrong, and changes nothing."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from mqueue.core import messages
from mqueue.core.errors import Invalid, TooLarge
from mqueue.core.messages import Dequeue, Message, Settle

T = TypeVar("T")
_many_messages = msgspec.json.Decoder(list[Message])
_one_message = msgspec.json.Decoder(Message)
_many_settles = msgspec.json.Decoder(list[Settle])
_one_settle = msgspec.json.Decoder(Settle)
_parts = msgspec.json.Decoder(list[msgspec.Raw])
_dequeue = msgspec.json.Decoder(Dequeue)


def parse_enqueue(body: bytes) -> list[Message]:
    parsed = _one_or_many(body, _one_message, _many_messages, messages.MAX_BATCH)[0]
    latest = datetime.now(UTC) + timedelta(milliseconds=messages.MAX_AHEAD_MS, seconds=5)
    errors = []
    for index, message in enumerate(parsed):
        wrong = messages.wrong_with(message)
        if not wrong and message.deliver_after and message.deliver_after > latest:
            wrong = "deliver_after", "at most 90 days ahead"
        if not wrong and message.idempotency_key is not None:
            wrong = "idempotency_key", "this version does not serve idempotency keys yet"
        if wrong:
            errors.append({"index": index, "field": wrong[0], "detail": wrong[1]})
        elif len(message.content) > messages.MAX_PAYLOAD:
            raise TooLarge(f"Message {index}: its payload is over {messages.MAX_PAYLOAD} bytes", index=index)
    if errors:
        raise _invalid(errors)
    return parsed


def parse_settles(body: bytes) -> tuple[list[Settle], bool]:
    """The settles, and whether they came as an array."""
    return _one_or_many(body, _one_settle, _many_settles, messages.MAX_SETTLES)


def parse_dequeue(method: str, query: bytes, body: bytes) -> Dequeue:
    try:
        if method == "POST":
            return _dequeue.decode(body)
        pairs = dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query)))
        return msgspec.convert(pairs, Dequeue, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid([_described(error, None)]) from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"The request cannot be read: {error}", errors=[]) from error


def _one_or_many(
    body: bytes, one: "msgspec.json.Decoder[T]", many: "msgspec.json.Decoder[list[T]]", limit: int
) -> tuple[list[T], bool]:
    is_array = body.lstrip()[:1] == b"["
    try:
        body.decode()  # a body that is passed through as it came is not looked at otherwise
        try:
            parsed = many.decode(body) if is_array else [one.decode(body)]
        except msgspec.ValidationError as error:
            raise _invalid(_each_error(body, one) if is_array else [_described(error, 0)]) from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"The body cannot be read: {error}", errors=[]) from error
    if not 1 <= len(parsed) <= limit:
        raise Invalid(f"The array has {len(parsed)} elements; 1 to {limit} are allowed", errors=[])
    return parsed, is_array


def _each_error(body: bytes, one: "msgspec.json.Decoder[Any]") -> list[dict[str, Any]]:
    errors = []
    for index, part in enumerate(_parts.decode(body)):
        try:
            one.decode(part)
        except msgspec.ValidationError as error:
            errors.append(_described(error, index))
    return errors


def _described(error: msgspec.ValidationError, index: int | None) -> dict[str, Any]:
    """msgspec ends its message with the path of the field, or names the missing one: `required field `x``."""
    text = str(error)
    path = re.search(r" - at `\$\.?(\w*)", text)
    missing = re.search(r"required field `(\w+)`", text)
    field = missing.group(1) if missing and not (path and path.group(1)) else path.group(1) if path else ""
    return {"index": index, "field": field, "detail": text.split(" - at `", maxsplit=1)[0]}


def _invalid(errors: list[dict[str, Any]]) -> Invalid:
    first = errors[0] if errors else {"field": "", "detail": ""}
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Invalid(f"{first['field']}: {first['detail']}{more}".lstrip(": "), errors=errors)

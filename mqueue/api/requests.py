"""From bytes to typed requests. A bad one is refused with every index and field that is wrong, and changes nothing."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import count
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from mqueue.core import messages
from mqueue.core.errors import Invalid, TooLarge
from mqueue.core.messages import DeadChoice, Find, Message, Move, Settle

SHORT = 512  # bytes of a query that is worth remembering
T = TypeVar("T")
Wrong = tuple[str, str] | None  # what the types cannot say: a field, and what is wrong with it
S = TypeVar("S", bound=Settle)
LOOKED_THROUGH = 256 << 10  # bytes: it takes up to 0.05 s
HALVED = "half a surrogate pair is no character"
UNKNOWN = rb"\ufffd"
_HEX = rb"[0-9a-fA-F]{2}"
_may_be_half = re.compile(rb"\\u[dD][89a-fA-F]").search
_escape = re.compile(
    rb"\\u[dD][89abAB]" + _HEX + rb"\\u[dD][c-fC-F]" + _HEX + rb"|(\\u[dD][89a-fA-F]" + _HEX + rb")|\\.", re.DOTALL
)
_many_messages = msgspec.json.Decoder(list[Message])
_one_message = msgspec.json.Decoder(Message)
_parts = msgspec.json.Decoder(list[msgspec.Raw])


@cache
def _decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kind)


class _Element:
    """One of an array, of which nothing is known but that it is there."""


def parse_enqueue(body: bytes) -> list[Message]:
    parsed = _one_or_many(body, _one_message, _many_messages, messages.MAX_BATCH, _wrong_with)[0]
    errors = []
    for index, message in enumerate(parsed):
        if wrong := _wrong_with(message):
            errors.append({"index": index, "field": wrong[0], "detail": wrong[1]})
        elif len(message.content) > messages.MAX_PAYLOAD:
            raise TooLarge(f"Message {index}: its payload is over {messages.MAX_PAYLOAD} bytes", index=index)
    if errors:
        raise _invalid(errors)
    return parsed


def parse_settles(body: bytes, kind: type[S]) -> tuple[list[S], bool]:
    """The settles, and whether they came as an array, which may be empty."""
    return _one_or_many(body, _decoder(kind), _decoder(list[kind]), messages.MAX_SETTLES, least=0)  # type: ignore[valid-type]


def parse(body: bytes, kind: type[T]) -> T:
    def decode() -> T:
        decoded: T = _decoder(kind).decode(body)  # type: ignore[arg-type]
        return decoded

    return _read(decode)


def parse_query(query: bytes, kind: type[T]) -> T:
    read: Callable[[bytes, type[T]], T] = _known_query if len(query) <= SHORT else _parsed_query
    return read(query, kind)


def _parsed_query(query: bytes, kind: type[Any]) -> Any:
    def convert() -> Any:
        pairs = dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict"))
        return msgspec.convert(pairs, kind, strict=False)

    return _read(convert)


# A consumer asks the same again and again, and what it asked never changes.
_known_query: Callable[[bytes, Any], Any] = lru_cache(maxsize=4096)(_parsed_query)


def parse_find(query: bytes) -> Find:
    wanted = parse_query(query, Find)
    if wanted.topic is None and wanted.idempotency_key is None:
        raise _invalid([{"index": None, "field": "topic", "detail": "topic or idempotency_key is needed"}])
    return wanted


def parse_move(body: bytes) -> Move:
    move = parse(body, Move)
    wrong = None
    if move.priority is None and move.deliver_after is None and move.delay_ms is None:
        wrong = "priority", "one of priority, deliver_after and delay_ms is needed"
    elif move.deliver_after is not None and move.delay_ms is not None:
        wrong = "delay_ms", "deliver_after and delay_ms exclude each other"
    elif move.deliver_after is not None and move.deliver_after > _latest():
        wrong = "deliver_after", "at most 90 days ahead"
    if wrong:
        raise _invalid([{"index": None, "field": wrong[0], "detail": wrong[1]}])
    return move


def parse_dead_choice(body: bytes) -> DeadChoice:
    choice = parse(body, DeadChoice)
    if (choice.id is not None) + (choice.ids is not None) + choice.all != 1:
        raise _invalid([{"index": None, "field": "ids", "detail": "exactly one of id, ids and all: true is needed"}])
    return choice


def parse_id(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,16}", text) or int(text) >= 2**53:
        raise _invalid([{"index": None, "field": "id", "detail": "a message id is a whole number below 2^53"}])
    return int(text)


def _wrong_with(message: Message) -> Wrong:
    wrong = messages.wrong_with(message)
    if not wrong and message.deliver_after and message.deliver_after > _latest():
        return "deliver_after", "at most 90 days ahead"
    return wrong


def _nothing_wrong(_: object) -> Wrong:
    return None


def _latest() -> datetime:
    return datetime.now(UTC) + timedelta(milliseconds=messages.MAX_AHEAD_MS, seconds=5)


def _read(read: Callable[[], T]) -> T:
    try:
        return read()
    except msgspec.ValidationError as error:
        raise _invalid([_described(error, None)]) from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"The request cannot be read: {error}", errors=[]) from error


def _one_or_many(  # noqa: PLR0917
    body: bytes,
    one: "msgspec.json.Decoder[T]",
    many: "msgspec.json.Decoder[list[T]]",
    limit: int,
    wrong_with: Callable[[T], Wrong] = _nothing_wrong,
    least: int = 1,
) -> tuple[list[T], bool]:
    is_array = body.lstrip()[:1] == b"["
    try:
        body.decode()  # a body that is passed through as it came is not looked at otherwise
        try:
            parsed = many.decode(body) if is_array else [one.decode(body)]
        except msgspec.ValidationError as error:
            if is_array:
                _require_at_most(limit, body)
            raise _invalid(_each_error(body, one, wrong_with) if is_array else [_described(error, 0)]) from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        if (mended := _without_halves(body)) == body:
            raise Invalid(f"The body cannot be read: {error}", errors=[]) from error
        found = _one_or_many(mended, one, many, limit, wrong_with, least)
        if wrong_with is _nothing_wrong:  # it has texts for people alone, such as an error that was cut
            return found
        raise _invalid(_halved(body, mended, is_array)) from error
    if not least <= len(parsed) <= limit:
        raise Invalid(f"The array has {len(parsed)} elements; {least} to {limit} are allowed", errors=[])
    return parsed, is_array


def _require_at_most(limit: int, body: bytes) -> None:
    """Before each is looked at: a body may hold eight million. It is read no further than to the first too many."""
    element, seen = _Element(), count(1)

    def count_one(kind: type[_Element], value: object) -> _Element:
        if next(seen) > limit:
            raise Invalid(f"The array has more than {limit} elements", errors=[])
        return element

    msgspec.json.decode(body, type=list[_Element], dec_hook=count_one)


def _each_error(body: bytes, one: "msgspec.json.Decoder[T]", wrong_with: Callable[[T], Wrong]) -> list[dict[str, Any]]:
    errors = []
    for index, part in enumerate(_parts.decode(body)):
        try:
            wrong = wrong_with(one.decode(part))
        except msgspec.ValidationError as error:
            errors.append(_described(error, index))
        else:
            if wrong:
                errors.append({"index": index, "field": wrong[0], "detail": wrong[1]})
    return errors


def _without_halves(body: bytes) -> bytes:
    """Half a surrogate pair, as is left of an emoji where a text was cut, is no character: another takes its place."""
    if len(body) > LOOKED_THROUGH or not _may_be_half(body):
        return body
    return _escape.sub(lambda found: UNKNOWN if found[1] else found[0], body)


def _halved(body: bytes, mended: bytes, is_array: bool) -> list[dict[str, Any]]:
    """Which elements have halves, and in which field: what was mended has all bytes at the same places."""
    errors, end = [], 0
    for index, part in enumerate(map(bytes, _parts.decode(mended)) if is_array else [mended]):
        start = mended.index(part, end)
        end = start + len(part)
        if body[start:end] != part:
            errors.append({"index": index, "field": _halved_field(body[start:end]), "detail": HALVED})
    return errors


def _halved_field(element: bytes) -> str:
    try:
        fields = ((name, json.dumps(value).encode()) for name, value in json.loads(element).items())
        return next((name for name, value in fields if _without_halves(value) != value), "")
    except (ValueError, RecursionError):  # a number of 5,000 digits, brackets by the thousand: more than Python reads
        return ""


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

"""Dead letters: search them, and look into one."""

from typing import Any
from urllib.parse import urlencode

import msgspec
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from mqueue.api.bridge import bridge
from mqueue.api.plane import Plane
from mqueue.api.support.base import SupportView
from mqueue.api.support.payloads import bytes_of, shown, visible
from mqueue.core import names
from mqueue.core.errors import Invalid, NotFound
from mqueue.core.messages import DeadLetter, Event, Place
from mqueue.core.searches import TOP, DeadFilter, place_of
from mqueue.engine.dead_search import Found
from mqueue.engine.dead_walk import Line
from tenants import access

A_PAGE = 50
MOST_COUNTED = 1000
FIELDS = DeadFilter.__struct_fields__
ERROR_SHOWN = 200


def filter_of(given: Any) -> DeadFilter:
    """From a form: what is empty is not asked for. Times of a browser have no zone, and mean UTC."""
    wanted = {name: given.get(name, "").strip() for name in FIELDS}
    wanted = {name: value for name, value in wanted.items() if value}
    for name in ("since", "until"):
        if name in wanted and not wanted[name].endswith("Z") and "+" not in wanted[name]:
            wanted[name] += "Z" if wanted[name].count(":") > 1 else ":00Z"
    try:
        return msgspec.convert(wanted, DeadFilter, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"This cannot be searched for: {error}", errors=[]) from error


def as_query(wanted: DeadFilter, **more: str) -> str:
    return urlencode(msgspec.to_builtins(wanted) | more)


def count(namespace: str, wanted: DeadFilter) -> str:
    most, is_all = bridge().call(lambda plane: plane.engine.dead_search.count(namespace, wanted, MOST_COUNTED))
    return as_count(most, is_all=is_all)


def as_count(most: int, *, is_all: bool) -> str:
    """As it can be said: the number, or that there are more."""
    return f"{most:,}" if is_all else f"{most:,}+"


class LettersPage(SupportView):
    template, tab = "letters.html", "dlq"

    def get(self, request: HttpRequest, namespace: str) -> HttpResponse:
        home = access.namespace(self.asker, namespace)
        wanted = filter_of(request.GET)
        after = place_of(request.GET.get("after", ""))

        most = MOST_COUNTED if after == TOP else A_PAGE  # the first page says how many there are, too

        async def search(plane: Plane) -> Found:
            return await plane.engine.dead_search.search(home.name, wanted, after, most)

        whole = bridge().call(search)
        found = whole.head(A_PAGE)
        below = as_query(wanted, after=found.next.written()) if found.next else ""
        return self.page(
            f"Dead letters of {home.name}",
            lines=[_shown(line) for line in found.lines],
            given={name: request.GET.get(name, "") for name in FIELDS},
            is_filtered=wanted != DeadFilter(),
            query=as_query(wanted),
            below=below,
            is_first=after == TOP,
            in_time=found.is_whole,
            seen=found.seen,
            matching=as_count(len(whole.lines), is_all=whole.next is None) if after == TOP else "",
            reasons=("max_retries", "expired", "rejected"),
        )


def letter_number(text: str) -> int | None:
    number = names.number(text)
    return number if number is not None and number < 2**53 else None


def find(namespace: str, text: str) -> DeadLetter:
    number = letter_number(text)
    if number is None:
        raise NotFound("There is no such dead letter")
    wanted = DeadFilter(id=number)
    letters, _ = bridge().call(lambda plane: plane.engine.dead_search.page(namespace, wanted, TOP, 1))
    if not letters:
        raise NotFound("There is no such dead letter. It may have been replayed or deleted meanwhile.")
    return letters[0]


class LetterPage(SupportView):
    template, tab = "letter.html", "dlq"

    def get(self, request: HttpRequest, namespace: str, number: str) -> HttpResponse:
        home = access.namespace(self.asker, namespace)
        letter = find(home.name, number)

        async def look(plane: Plane) -> list[Event]:
            return await plane.engine.look.trace(letter.id, Place(home.name, letter.topic))

        events = [
            (event.event, event.at, event.attempt, visible(event.consumer or ""), visible(event.detail or ""))
            for event in bridge().call(look)
        ]
        named = msgspec.json.decode(letter.headers, type=dict[str, str])
        return self.page(
            f"Dead letter {letter.id}",
            letter=letter,
            error=visible(letter.error or ""),
            headers=[(visible(name), visible(value)) for name, value in named.items()],
            payload=shown(bytes_of(letter)),
            events=events,
            back=reverse("support:letters", args=[home.name]),
        )


class PayloadFile(SupportView):
    """The very bytes, as a file that no browser shows."""

    def get(self, request: HttpRequest, namespace: str, number: str) -> HttpResponse:
        letter = find(access.namespace(self.asker, namespace).name, number)
        answer = HttpResponse(bytes_of(letter), content_type="application/octet-stream")
        answer["Content-Disposition"] = f'attachment; filename="{letter.id}.bin"'
        answer["Content-Security-Policy"] = "sandbox; default-src 'none'"
        return answer


def _shown(line: Line) -> Line:
    text = visible(line.error or "").replace("\n", " ")
    return line._replace(error=text[:ERROR_SHOWN] + ("…" if len(text) > ERROR_SHOWN else ""))

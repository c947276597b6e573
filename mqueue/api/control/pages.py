"""Pages by keyset: a page begins after the last element of the one before, which need not be there any more."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpResponse

from mqueue.api.control.base import answer
from tenants.records import Page

M = TypeVar("M", bound=Model)


def page(found: "QuerySet[M]", wanted: Page, order: str, shape: Callable[[M], Any]) -> HttpResponse:
    """`order` is a field that is unique among these, with a minus for the greatest first."""
    field = order.removeprefix("-")
    if wanted.after:
        found = found.filter(**{f"{field}__{'lt' if order.startswith('-') else 'gt'}": wanted.after})
    rows = list(found.order_by(order)[: wanted.limit + 1])
    items, more = rows[: wanted.limit], len(rows) > wanted.limit
    return answer({"items": [shape(row) for row in items], "next": _value(items[-1], field) if more else None})


def _value(row: Model, field: str) -> str:
    value: Any = row
    for name in field.split("__"):
        value = getattr(value, name)
    return str(value)

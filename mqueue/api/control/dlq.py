"""`namespaces/{ns}/dlq/`: search dead letters, those that died last first."""

from typing import ClassVar

from django.http import HttpResponse
from rest_framework.request import Request

from mqueue.api.bridge import bridge
from mqueue.api.control.base import ControlView, answer
from mqueue.api.control.reading import read_query
from mqueue.core.searches import place_of
from tenants import access
from tenants.job_records import DeadSearchPage
from tenants.rules import DLQ_SCOPE, VIEWER


class DeadLettersView(ControlView):
    roles = {"GET": VIEWER}
    scope: ClassVar[str] = DLQ_SCOPE

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, DeadSearchPage)
        home = access.namespace(self.asker, namespace, VIEWER, DLQ_SCOPE)
        letters, found = bridge().call(
            lambda plane: plane.engine.dead_search.page(home.name, wanted, place_of(wanted.after), wanted.limit)
        )
        below = found.next.written() if found.next else None
        return answer({"items": letters, "next": below, "in_time": found.is_whole})

"""`namespaces/{ns}/members/` and `…/members/{user}/`."""

from typing import ClassVar

from django.http import HttpResponse
from rest_framework.request import Request

from mqueue.api.control.base import ControlView, answer, nothing
from mqueue.api.control.pages import page
from mqueue.api.control.reading import read_body, read_query
from tenants import access, audit, shapes
from tenants.records import MemberChange, MemberPage
from tenants.rules import ADMIN


class MembersView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": ADMIN}

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, MemberPage)
        found = access.members(self.asker, namespace)
        if wanted.role is not None:
            found = found.filter(role=wanted.role)
        return page(found, wanted, "user__username", shapes.member)


class MemberView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": ADMIN, "PUT": ADMIN, "DELETE": ADMIN}

    def get(self, request: Request, namespace: str, user: str) -> HttpResponse:
        return answer(shapes.member(access.member(self.asker, namespace, user)))

    def put(self, request: Request, namespace: str, user: str) -> HttpResponse:
        change = read_body(request, MemberChange)
        with audit.changing():
            found, is_new = access.member_to_put(self.asker, namespace, user)
            before = None if is_new else shapes.member(found)
            found.role = change.role
            found.save()
            action = "member.add" if is_new else "member.change"
            audit.note(self.asker, action, namespace, user, before=before, after=shapes.member(found))
        return answer(shapes.member(found), 201 if is_new else 200)

    def delete(self, request: Request, namespace: str, user: str) -> HttpResponse:
        with audit.changing():
            found = access.member(self.asker, namespace, user)
            before = shapes.member(found)
            found.delete()
            audit.note(self.asker, "member.remove", namespace, user, before=before)
        return nothing()

"""Accounts: Django's own, which a superuser looks after. What they may do in a namespace is its members' business."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as PlainGroupAdmin
from django.contrib.auth.admin import UserAdmin as PlainUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from msgspec import Struct
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from tenants import audit, shapes
from tenants.admin.door import Audited, asker

admin.site.unregister([User, Group])


class Account(Struct, frozen=True):
    name: str
    email: str
    is_active: bool
    is_staff: bool
    is_superuser: bool
    groups: list[str]
    permissions: list[str]


class GroupShape(Struct, frozen=True):
    name: str
    permissions: list[str]


class AuditedPeople(Audited):
    """Of no namespace: its lines in the log are for superusers."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.delete_queryset(request, [obj])

    def delete_queryset(self, request: HttpRequest, found: Iterable[Any]) -> None:
        with audit.changing():
            for obj in found:
                before = self.shape(obj)
                obj.delete()
                self.note(request, obj, before, None)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """A new password is no field of the page, and is known by its message alone."""
        if "password" in str(message).lower():
            with audit.changing():
                audit.note(asker(request), f"{self.act}.password", "", str(obj))
        return super().log_change(request, obj, message)  # type: ignore[misc]


@admin.register(User)
class UserAdmin(AuditedPeople, PlainUserAdmin, ModelAdmin):  # type: ignore[misc,type-arg]
    form, add_form, change_password_form = UserChangeForm, UserCreationForm, AdminPasswordChangeForm
    act = "account"

    def shape(self, obj: User) -> Account:
        groups, permissions = sorted(group.name for group in obj.groups.all()), names_of(obj.user_permissions.all())
        return Account(obj.username, obj.email, obj.is_active, obj.is_staff, obj.is_superuser, groups, permissions)

    def delete_queryset(self, request: HttpRequest, found: Iterable[Any]) -> None:
        """Their roles go with them, which is the business of each namespace."""
        with audit.changing():
            people = list(found)
            for person in people:
                for member in person.memberships.select_related("user", "namespace"):
                    before = shapes.member(member)
                    audit.note(asker(request), "member.remove", member.namespace.name, before.user, before=before)
            super().delete_queryset(request, people)


@admin.register(Group)
class GroupAdmin(AuditedPeople, PlainGroupAdmin, ModelAdmin):  # type: ignore[misc]
    act = "group"

    def shape(self, obj: Group) -> GroupShape:
        return GroupShape(obj.name, names_of(obj.permissions.all()))


def names_of(permissions: "QuerySet[Permission]") -> list[str]:
    """With their applications: two of them may have a permission of the same name."""
    found = permissions.select_related("content_type")
    return sorted(f"{one.content_type.app_label}.{one.codename}" for one in found)


def password_change(request: HttpRequest) -> HttpResponse:
    """A person's own."""
    with transaction.atomic():
        answer: HttpResponse = admin.site.password_change(request)
        if answer.status_code == 302:
            audit.note(asker(request), "account.password", "", str(request.user))
    return answer

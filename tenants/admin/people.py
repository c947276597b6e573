"""Accounts: Django's own, which a superuser looks after. What they may do in a namespace is its members' business."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as PlainGroupAdmin
from django.contrib.auth.admin import UserAdmin as PlainUserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from msgspec import Struct
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from tenants import audit
from tenants.admin.door import Audited, asker

admin.site.unregister([User, Group])


class Account(Struct, frozen=True):
    name: str
    email: str
    is_active: bool
    is_staff: bool
    is_superuser: bool
    groups: list[str]


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
        groups = sorted(group.name for group in obj.groups.all())
        return Account(obj.username, obj.email, obj.is_active, obj.is_staff, obj.is_superuser, groups)


@admin.register(Group)
class GroupAdmin(AuditedPeople, PlainGroupAdmin, ModelAdmin):  # type: ignore[misc]
    act = "group"

    def shape(self, obj: Group) -> GroupShape:
        return GroupShape(obj.name, sorted(permission.codename for permission in obj.permissions.all()))

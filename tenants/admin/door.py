"""What all pages of tenants' records share: the door by which they load them, the roles they ask for, the audit log."""

from typing import Any, ClassVar

from django.contrib.admin import RelatedFieldListFilter
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from msgspec import Struct
from unfold.admin import ModelAdmin

from mqueue.core.errors import Forbidden
from tenants import access, audit
from tenants.askers import Asker, asker_of
from tenants.rules import ADMIN, VIEWER


def asker(request: HttpRequest) -> Asker:
    return asker_of(request.user)


def may(request: HttpRequest, namespace: str, role: str) -> bool:
    try:
        asker(request).require(namespace, role)
    except Forbidden:
        return False
    return True


class VisibleNamespaces(RelatedFieldListFilter):
    """A filter that names no other namespaces than the page."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[Any]:
        return list(access.namespaces(asker(request)).values_list("pk", "name"))


class DoorAdmin(ModelAdmin):  # type: ignore[misc]
    """`path` leads from a record to its namespace's name; `roles` names the role that each act needs."""

    path = "namespace__name"
    roles: ClassVar[dict[str, str]] = {"view": VIEWER}
    show_full_result_count = False
    list_fullwidth = True

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        found: QuerySet[Any] = super().get_queryset(request)
        return found.filter(access.within(asker(request), self.path, self.roles["view"]))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_staff)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, obj, "view")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, obj, "change")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may(request, None, "add")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, obj, "delete")

    def _may(self, request: HttpRequest, obj: Any, act: str) -> bool:
        """Without an object: whether there may be one for which he may. The list then shows those that he sees."""
        role = self.roles.get(act)
        if role is None or not self.has_module_permission(request):
            return False
        if obj is None:
            reach = asker(request).reach(role)
            return reach is None or bool(reach) or act == "view"
        return may(request, namespace_of(obj, self.path), role)


class Audited:
    """One act in the log for a page that is saved, with all that is on it; `act` is what it is called there."""

    act = ""
    path = ""

    def shape(self, obj: Any) -> Struct:
        """As the log keeps it, with what belongs to it."""
        raise NotImplementedError

    def save_model(self, request: HttpRequest, obj: Any, form: "ModelForm[Any]", change: bool) -> None:
        audit.take_turn()
        request.__dict__["_mqueue_before"] = self.shape(access.anew(obj)) if change else None
        super().save_model(request, obj, form, change)  # type: ignore[misc]

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)  # type: ignore[misc]
        before, now = request.__dict__.pop("_mqueue_before"), access.anew(form.instance)
        self.note(request, now, before, self.shape(now))

    def note(self, request: HttpRequest, obj: Any, before: Struct | None, after: Struct | None) -> None:
        if before != after:
            act = "create" if before is None else "delete" if after is None else "change"
            home = namespace_of(obj, self.path) if self.path else ""
            audit.note(asker(request), f"{self.act}.{act}", home, str(obj), before=before, after=after)


class AuditedAdmin(Audited, DoorAdmin):
    path = DoorAdmin.path
    roles: ClassVar[dict[str, str]] = {"view": VIEWER, "change": ADMIN}


def namespace_of(obj: Model, path: str) -> str:
    found: Any = obj
    for name in path.split("__"):
        found = getattr(found, name)
    return str(found)

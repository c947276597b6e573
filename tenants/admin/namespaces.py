"""Namespaces, with their quotas and members edited in place. They are deleted by the API, which looks for messages."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from msgspec import Struct
from unfold.admin import StackedInline, TabularInline

from mqueue.core.conf import conf
from tenants import access, shapes
from tenants.admin.door import AuditedAdmin, asker, may
from tenants.askers import Asker
from tenants.models import Member, Namespace, Quota
from tenants.records import Member as MemberShape
from tenants.records import Namespace as NamespaceShape
from tenants.records import Quotas
from tenants.rules import ADMIN, OWNER, VIEWER


class Whole(Struct, frozen=True):
    """All that is on the page."""

    namespace: NamespaceShape
    quotas: Quotas
    members: list[MemberShape]


class OfNamespace:
    """An inline is what its page is: who may change that may change this."""

    def has_view_permission(self, request: HttpRequest, obj: Namespace | None = None) -> bool:
        return obj is None or may(request, obj.name, VIEWER)  # without one: whether there may be any

    def has_change_permission(self, request: HttpRequest, obj: Namespace | None = None) -> bool:
        return obj is None or may(request, obj.name, ADMIN)

    has_add_permission = has_delete_permission = has_change_permission


class SeededQuotas(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    """Begins with what NAMESPACE_QUOTAS says: whoever sets another limit shall not lift this one unawares."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if seed := conf().namespace_quotas.get(self.instance.name):
            self.initial_extra = [{"messages_per_minute": seed}]


class QuotaInline(OfNamespace, StackedInline):  # type: ignore[misc]
    model = Quota
    formset = SeededQuotas
    can_delete = False
    verbose_name_plural = "Quotas; empty is no limit, and the weight 1"


class MemberInline(OfNamespace, TabularInline):  # type: ignore[misc]
    model = Member
    extra = 0
    autocomplete_fields: ClassVar[list[str]] = []
    raw_id_fields: ClassVar[list[str]] = []

    def has_view_permission(self, request: HttpRequest, obj: Namespace | None = None) -> bool:
        return obj is None or may(request, obj.name, ADMIN)


class NamespaceForm(forms.ModelForm):  # type: ignore[type-arg]
    asker: Asker  # the page sets it

    def clean(self) -> dict[str, Any]:
        """One that was deleted is made anew, in its old row."""
        cleaned = super().clean() or {}
        if self.instance.pk is None:
            gone = access.namespace_that_is_gone(self.asker, cleaned.get("name", ""))
            if gone:
                gone.deleted_at = None
                self.instance = gone
        return cleaned


@admin.register(Namespace)
class NamespaceAdmin(AuditedAdmin):
    path = "name"
    act = "namespace"
    roles: ClassVar[dict[str, str]] = {"view": VIEWER, "change": ADMIN, "add": OWNER}
    form = NamespaceForm
    list_display = ["name", "description", "created_at"]
    search_fields = ["name", "description"]

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Namespace]":
        return super().get_queryset(request).filter(deleted_at=None)

    def get_form(self, request: HttpRequest, obj: Namespace | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"asker": asker(request)})

    def get_readonly_fields(self, request: HttpRequest, obj: Namespace | None = None) -> list[str]:
        return ["name"] if obj else []

    def get_inlines(self, request: HttpRequest, obj: Namespace | None) -> list[Any]:
        return [QuotaInline, MemberInline] if obj else []

    def shape(self, obj: Namespace) -> Whole:
        members = [shapes.member(one) for one in obj.members.select_related("user")]
        return Whole(shapes.namespace(obj), shapes.quotas(obj, shapes.quota_of(obj)), members)

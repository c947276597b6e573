"""Topics, with their settings edited in place. They are made by their first message; a name cannot change."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from msgspec import Struct
from unfold.admin import StackedInline

from tenants import shapes
from tenants.admin.door import AuditedAdmin, VisibleNamespaces, may
from tenants.models import Topic, TopicSettings
from tenants.rules import OPERATOR, VIEWER


class SettingsInline(StackedInline):  # type: ignore[misc]
    model = TopicSettings
    can_delete = False
    verbose_name_plural = "Settings; empty is the default"

    def has_view_permission(self, request: HttpRequest, obj: Topic | None = None) -> bool:
        return obj is None or may(request, obj.namespace.name, VIEWER)

    def has_change_permission(self, request: HttpRequest, obj: Topic | None = None) -> bool:
        return obj is None or may(request, obj.namespace.name, OPERATOR)

    has_add_permission = has_change_permission


@admin.register(Topic)
class TopicAdmin(AuditedAdmin):
    act = "topic"
    roles: ClassVar[dict[str, str]] = {"view": VIEWER, "change": OPERATOR}
    list_display = ["name", "namespace", "paused", "durability", "created_at"]
    list_filter = ["settings__paused", "settings__durability", ("namespace", VisibleNamespaces)]
    search_fields = ["name"]
    readonly_fields = ["namespace", "name", "created_at"]
    inlines = [SettingsInline]

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Topic]":
        live = super().get_queryset(request).filter(settings__deleted_at=None)
        return live.select_related("namespace", "settings")

    @admin.display(boolean=True)
    def paused(self, topic: Topic) -> bool:
        return shapes.topic(topic).paused

    def durability(self, topic: Topic) -> str:
        return shapes.topic(topic).durability

    def shape(self, obj: Any) -> Struct:
        return shapes.topic(obj)

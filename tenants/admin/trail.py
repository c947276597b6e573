"""The audit log, to be read."""

import json
from typing import Any, ClassVar

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString

from tenants.admin.door import DoorAdmin
from tenants.models import AuditEntry
from tenants.rules import ADMIN


@admin.register(AuditEntry)
class AuditAdmin(DoorAdmin):
    path = "namespace"
    roles: ClassVar[dict[str, str]] = {"view": ADMIN}
    list_display = ["at", "actor", "via", "action", "namespace", "target"]
    list_filter = ["action", "at"]
    search_fields = ["=namespace", "=actor", "=target"]
    fields = ["at", "actor", "via", "action", "namespace", "target", "shown_before", "shown_after"]
    readonly_fields = fields

    @admin.display(description="before")
    def shown_before(self, entry: AuditEntry) -> SafeString:
        return _pretty(entry.before)

    @admin.display(description="after")
    def shown_after(self, entry: AuditEntry) -> SafeString:
        return _pretty(entry.after)


def _pretty(record: Any) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(record, indent=2, ensure_ascii=False)) if record else SafeString()

"""The menu of the admin."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

LISTS = (
    ("Namespaces", "domain", "tenants_namespace"),
    ("Topics", "stacks", "tenants_topic"),
    ("Keys", "key", "tenants_key"),
    ("Audit log", "history", "tenants_auditentry"),
)
PEOPLE = (("Users", "person", "auth_user"), ("Groups", "group", "auth_group"))


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    messages = [{"title": "Messages", "icon": "mail", "link": reverse("support:homes")}]
    groups = [
        {"title": "Support", "separator": False, "items": messages},
        {"title": "Control plane", "separator": True, "items": _lists(LISTS)},
    ]
    if getattr(request.user, "is_superuser", False):
        groups.append({"title": "Accounts", "separator": True, "items": _lists(PEOPLE)})
    return groups


def _lists(wanted: tuple[tuple[str, str, str], ...]) -> list[dict[str, Any]]:
    return [
        {"title": title, "icon": icon, "link": reverse(f"admin:{model}_changelist")} for title, icon, model in wanted
    ]

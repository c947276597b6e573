"""The only door by which code of the control plane comes to an object on behalf of somebody.

Each function asks first whether the asker may, by the namespace's name alone, and only then looks whether there is such
an object: so a foreigner's answer tells nothing, in its words or in its time.
"""

from datetime import UTC, datetime
from typing import TypeVar

from django.contrib.auth.models import User
from django.db.models import Model, Q, QuerySet

from mqueue.core import names
from mqueue.core.credentials import is_kid
from mqueue.core.errors import Invalid, NamespaceNotFound, NotFound
from tenants import shapes
from tenants.askers import Asker
from tenants.models import AuditEntry, Job, Key, Member, Namespace, Quota, Topic
from tenants.rules import ADMIN, ADMIN_SCOPE, OPERATOR, OWNER, VIEWER

M = TypeVar("M", bound=Model)
NUL = "\0"  # which PostgreSQL does not even look for


def namespaces(asker: Asker, role: str = VIEWER) -> "QuerySet[Namespace]":
    """Those where he has at least this role."""
    return Namespace.objects.filter(within(asker, "name", role), deleted_at=None)


def within(asker: Asker, field: str, role: str = VIEWER) -> Q:
    """That a field names a namespace where he has at least this role."""
    reach = asker.reach(role)
    return Q() if reach is None else Q(**{f"{field}__in": reach})


def namespace(asker: Asker, name: str, role: str = VIEWER, scope: str = ADMIN_SCOPE) -> Namespace:
    asker.require(name, role, scope)
    found = names.is_namespace(name) and Namespace.objects.filter(name=name, deleted_at=None).first()
    if not found:
        raise NamespaceNotFound("There is no such namespace")
    return found


def namespace_to_put(asker: Asker, name: str) -> tuple[Namespace, bool]:
    """It, and whether it is made now: then it is not saved yet."""
    asker.require(name, ADMIN)
    if not names.is_namespace(name):
        asker.require(name, OWNER)
        raise Invalid("The name cannot be that of a namespace", errors=[_wrong("namespace", names.NAMESPACE)])
    found = Namespace.objects.filter(name=name).first()
    if found and found.deleted_at is None:
        return found, False
    asker.require(name, OWNER)
    made = found or Namespace(name=name)
    made.deleted_at, made.description, made.created_at = None, "", datetime.now(UTC)
    return made, True


def namespace_that_is_gone(asker: Asker, name: str) -> Namespace | None:
    """Its row, to be taken by one that is made."""
    asker.require(name, OWNER)
    return Namespace.objects.filter(name=name).exclude(deleted_at=None).first()


def topics(asker: Asker, namespace_name: str) -> "QuerySet[Topic]":
    home = namespace(asker, namespace_name)
    return Topic.objects.filter(namespace=home, settings__deleted_at=None).select_related("settings", "namespace")


def topic(asker: Asker, namespace_name: str, name: str, role: str = VIEWER) -> Topic:
    home = namespace(asker, namespace_name, role)
    live = Topic.objects.filter(namespace=home, settings__deleted_at=None).select_related("settings", "namespace")
    found = names.is_topic(name) and live.filter(name=name).first()
    if not found:
        raise NotFound("There is no such topic")
    return found


def topic_to_put(asker: Asker, namespace_name: str, name: str) -> tuple[Topic, bool]:
    """It, and whether it was made now."""
    home = namespace(asker, namespace_name, OPERATOR)
    if not names.is_topic(name):
        raise Invalid("The name cannot be that of a topic", errors=[_wrong("topic", names.TOPIC)])
    found, is_new = Topic.objects.select_related("settings").get_or_create(namespace=home, name=name)
    return found, is_new or shapes.settings_of(found).deleted_at is not None


def quota(asker: Asker, namespace_name: str, role: str = VIEWER) -> tuple[Namespace, Quota | None]:
    home = namespace(asker, namespace_name, role)
    return home, Quota.objects.filter(namespace=home).first()


def keys(asker: Asker, namespace_name: str) -> "QuerySet[Key]":
    return Key.objects.filter(namespace=namespace(asker, namespace_name, ADMIN)).select_related("namespace")


def key(asker: Asker, namespace_name: str, kid: str) -> Key:
    known = keys(asker, namespace_name)
    found = is_kid(kid) and known.filter(kid=kid).first()
    if not found:
        raise NotFound("There is no such key")
    return found


def members(asker: Asker, namespace_name: str) -> "QuerySet[Member]":
    home = namespace(asker, namespace_name, ADMIN)
    return Member.objects.filter(namespace=home).select_related("user", "namespace")


def member(asker: Asker, namespace_name: str, username: str) -> Member:
    known = members(asker, namespace_name)
    found = NUL not in username and known.filter(user__username=username).first()
    if not found:
        raise NotFound("There is no such member")
    return found


def member_to_put(asker: Asker, namespace_name: str, username: str) -> tuple[Member, bool]:
    """It, and whether it is made now: then it is not saved yet."""
    home = namespace(asker, namespace_name, ADMIN)
    person = NUL not in username and User.objects.filter(username=username).first()
    if not person:
        raise NotFound("There is no such user")
    found = Member.objects.filter(namespace=home, user=person).select_related("user").first()
    return found or Member(namespace=home, user=person), found is None


def jobs(asker: Asker, namespace_name: str, role: str = VIEWER, scope: str = ADMIN_SCOPE) -> "QuerySet[Job]":
    home = namespace(asker, namespace_name, role, scope)
    return Job.objects.filter(namespace=home).select_related("namespace")


def job(asker: Asker, namespace_name: str, number: str, role: str = VIEWER, scope: str = ADMIN_SCOPE) -> Job:
    known, wanted = jobs(asker, namespace_name, role, scope), names.number(number)
    found = known.filter(pk=wanted).first() if wanted is not None else None
    if not found:
        raise NotFound("There is no such job")
    return found


def audit(asker: Asker, namespace_name: str) -> "QuerySet[AuditEntry]":
    """That of a namespace which is gone, too."""
    asker.require(namespace_name, ADMIN)
    if not names.is_namespace(namespace_name):
        raise NamespaceNotFound("There is no such namespace")
    return AuditEntry.objects.filter(namespace=namespace_name)


def anew(found: M) -> M:
    """What he holds already, as it is in the database now."""
    again: M = type(found)._base_manager.get(pk=found.pk)  # noqa: SLF001  Django's own name for it
    return again


def _wrong(field: str, pattern: str) -> dict[str, object]:
    return {"index": None, "field": field, "detail": f"has to match {pattern.replace(chr(92) + 'Z', '$')}"}

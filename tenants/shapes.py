"""Records as they are answered, and as the audit log keeps them."""

from typing import Any, cast

import msgspec
from msgspec import UNSET

from mqueue.core import credentials
from mqueue.core.conf import conf
from mqueue.core.searches import DeadFilter
from tenants import models
from tenants.job_records import Job
from tenants.records import AuditEntry, Key, Member, Namespace, Quotas, Topic
from tenants.rules import DONE, LIVE
from tenants.snapshot import topic_settings

QUOTAS = Quotas.__struct_fields__


def namespace(found: models.Namespace) -> Namespace:
    return Namespace(found.name, found.description, found.created_at)


def topic(found: models.Topic) -> Topic:
    settings = settings_of(found)
    own = topic_settings({field.name: getattr(settings, field.attname) for field in settings.settings_fields()})
    return Topic(
        namespace=found.namespace.name,
        name=found.name,
        visibility_ms=own.visibility_ms,
        max_retries=own.max_retries,
        retry=own.retry,
        retention_days=own.retention_days or conf().retention.retention_days,
        durability=cast("Any", own.durability),
        paused=own.paused,
        rate=own.rate,
        tracing=own.tracing,
        created_at=found.created_at,
    )


def settings_of(topic: models.Topic) -> models.TopicSettings:
    """Its record; one that is not saved yet where it has the defaults alone."""
    try:
        return topic.settings
    except models.TopicSettings.DoesNotExist:
        return models.TopicSettings(topic=topic)


def quota_of(home: models.Namespace) -> models.Quota | None:
    try:
        return home.quota
    except models.Quota.DoesNotExist:
        return None


def quotas(home: models.Namespace, found: models.Quota | None) -> Quotas:
    """Without a record, what NAMESPACE_QUOTAS says counts."""
    if found is None:
        none = dict.fromkeys(QUOTAS)
        return Quotas(**none | {"messages_per_minute": conf().namespace_quotas.get(home.name)})
    return Quotas(**{name: getattr(found, name) for name in QUOTAS})


def key(found: models.Key, secret: str = "") -> Key:
    return Key(
        kid=found.kid,
        name=found.name,
        kind=cast("Any", found.kind),
        scopes=cast("Any", found.scopes),
        created_at=found.created_at,
        created_by=found.created_by,
        expires_at=found.expires_at,
        revoked_at=found.revoked_at,
        last_used_at=found.last_used_at,
        prefix=credentials.shown(found.kid) if found.kind == credentials.API_KEY else UNSET,
        public_key=bytes(found.material).decode() if found.kind in credentials.PUBLIC else UNSET,
        secret=secret or UNSET,
    )


def member(found: models.Member) -> Member:
    return Member(found.user.get_username(), cast("Any", found.role), found.created_at)


def audit_entry(found: models.AuditEntry) -> AuditEntry:
    return AuditEntry(**{name: getattr(found, name) for name in AuditEntry.__struct_fields__})


def job(found: models.Job, hint: str | None = None) -> Job:
    """`hint` is what there is to say of those who might do it, while it is not over."""
    return Job(
        id=found.pk,
        kind=cast("Any", found.kind),
        topic=found.topic or None,
        filter=msgspec.convert(found.filter, DeadFilter),
        dead=found.with_dead,
        dry_run=found.is_dry_run,
        rate_per_s=found.rate_per_s,
        max=found.most,
        state=cast("Any", found.state),
        total=found.total,
        searched=found.searched,
        matched=found.matched,
        done=found.done,
        progress=_progress(found),
        error=found.error or None,
        hint=hint if found.state in LIVE else None,
        created_by=found.created_by,
        via=found.via,
        created_at=found.created_at,
        started_at=found.started_at,
        finished_at=found.finished_at,
    )


def _progress(found: models.Job) -> float:
    """By what it has looked at, or by what it may do at most."""
    if found.state == DONE:
        return 1.0
    parts = [found.searched / found.total] if found.total else []
    if found.most:
        parts.append(found.matched / found.most)
    return round(min(1.0, max(parts, default=0.0)), 4)

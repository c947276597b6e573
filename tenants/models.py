"""The tenants' records, in the control database.

Settings, quotas and keys carry `changed`: the version of all settings in which the row was last written. A trigger sets
it, whoever writes, so that no process misses a change: see `tenants/settings_cache.py`.
"""

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.serializers.json import DjangoJSONEncoder
from django.core.validators import BaseValidator, MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models.functions import Now

from mqueue.core import credentials, names
from tenants.job_models import Job, JobRunner
from tenants.login_models import LoginAttempts
from tenants.rules import (
    DURABILITIES,
    QUOTA,
    RATE_CAPACITY,
    RATE_REFILL,
    RETENTION_DAYS,
    RETRIES,
    RETRY_MS,
    ROLES,
    STRATEGIES,
    VISIBILITY_MS,
    WEIGHT,
)

__all__ = [
    "AuditEntry",
    "Job",
    "JobRunner",
    "Key",
    "LoginAttempts",
    "Member",
    "Namespace",
    "Quota",
    "Topic",
    "TopicSettings",
]


def between(least: float, most: float) -> list[BaseValidator]:
    return [MinValueValidator(least), MaxValueValidator(most)]


class Namespace(models.Model):
    """A tenant's own world: its topics, keys, quotas and dead letters. One that was deleted keeps its row, as a topic
    does."""

    name = models.CharField(max_length=63, unique=True, validators=[RegexValidator(names.NAMESPACE)])
    description = models.CharField(max_length=1000, blank=True, default="", db_default="")
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    deleted_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "namespace"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Topic(models.Model):
    """A priority queue. Its number stands in the rows of every shard, so a topic is never made twice."""

    id = models.AutoField(primary_key=True)
    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="topics")
    name = models.CharField(max_length=128, validators=[RegexValidator(names.TOPIC)])
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())

    class Meta:
        db_table = "topic"
        ordering = ["namespace__name", "name"]
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="topic_namespace_name")]

    def __str__(self) -> str:
        return f"{self.namespace}:{self.name}"


class TopicSettings(models.Model):
    """What differs from the defaults, which are null here; a topic with defaults alone has no row."""

    topic = models.OneToOneField(Topic, on_delete=models.PROTECT, primary_key=True, related_name="settings")
    visibility_ms = models.IntegerField(null=True, blank=True, validators=between(*VISIBILITY_MS))
    max_retries = models.IntegerField(null=True, blank=True, validators=between(*RETRIES))
    retry_strategy = models.CharField(max_length=16, null=True, blank=True, choices=[(s, s) for s in STRATEGIES])  # noqa: DJ001  null is the default
    retry_base_ms = models.BigIntegerField(null=True, blank=True, validators=between(*RETRY_MS))
    retry_max_ms = models.BigIntegerField(null=True, blank=True, validators=between(*RETRY_MS))
    retry_jitter = models.FloatField(null=True, blank=True, validators=between(0, 1))
    retention_days = models.IntegerField(null=True, blank=True, validators=between(*RETENTION_DAYS))
    durability = models.CharField(max_length=16, null=True, blank=True, choices=[(d, d) for d in DURABILITIES])  # noqa: DJ001
    paused = models.BooleanField(default=False)
    rate_capacity = models.BigIntegerField(null=True, blank=True, validators=between(*RATE_CAPACITY))
    rate_refill_per_s = models.FloatField(null=True, blank=True, validators=between(*RATE_REFILL))
    tracing = models.BooleanField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, editable=False)
    changed = models.BigIntegerField(db_default=0, editable=False, db_index=True)

    class Meta:
        db_table = "topic_settings"
        verbose_name_plural = "topic settings"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(rate_capacity=None, rate_refill_per_s=None)
                | models.Q(rate_capacity__isnull=False, rate_refill_per_s__isnull=False),
                name="rate_is_whole",
                violation_error_message="A rate is a capacity and a refill, or neither.",
            )
        ]

    def __str__(self) -> str:
        return f"settings of {self.topic}"

    @classmethod
    def cleared(cls) -> dict[str, Any]:
        """Each setting at its default."""
        return {field.name: None if field.null else field.get_default() for field in cls.settings_fields()}

    @classmethod
    def settings_fields(cls) -> "list[models.Field[Any, Any]]":
        return [field for field in cls._meta.concrete_fields if field.name not in ("topic", "changed")]


class Quota(models.Model):
    """The limits of a namespace; null is none. Without a row, what NAMESPACE_QUOTAS says counts. `weight` is its share
    beside the others where requests wait for each other; null is 1."""

    namespace = models.OneToOneField(Namespace, on_delete=models.PROTECT, primary_key=True, related_name="quota")
    messages_per_minute = models.BigIntegerField(null=True, blank=True, validators=between(*QUOTA))
    bytes_per_minute = models.BigIntegerField(null=True, blank=True, validators=between(*QUOTA))
    max_stored = models.BigIntegerField(null=True, blank=True, validators=between(*QUOTA))
    max_in_flight = models.BigIntegerField(null=True, blank=True, validators=between(*QUOTA))
    max_topics = models.BigIntegerField(null=True, blank=True, validators=between(*QUOTA))
    weight = models.IntegerField(null=True, blank=True, validators=between(*WEIGHT))
    changed = models.BigIntegerField(db_default=0, editable=False, db_index=True)

    class Meta:
        db_table = "namespace_quota"

    def __str__(self) -> str:
        return f"quotas of {self.namespace}"


class Key(models.Model):
    """A namespace's own key. It is never deleted: the audit log names it."""

    kid = models.CharField(max_length=16, unique=True, editable=False)
    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="keys")
    name = models.CharField(max_length=100, blank=True, default="")
    kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in credentials.KINDS])
    scopes = ArrayField(models.CharField(max_length=16))
    material = models.BinaryField(editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=300, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    changed = models.BigIntegerField(db_default=0, editable=False, db_index=True)

    class Meta:
        db_table = "namespace_key"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name or self.kind} ({self.kid})"


class Member(models.Model):
    """What a person may do in a namespace, through the admin and the control plane."""

    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="members")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=[(role, role) for role in ROLES])
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "namespace_member"
        ordering = ["user__username"]
        constraints = [models.UniqueConstraint(fields=["namespace", "user"], name="member_namespace_user")]

    def __str__(self) -> str:
        return f"{self.user}: {self.role}"


class AuditEntry(models.Model):
    """One administrative act, in the words of its time: what it names may be gone by now."""

    at = models.DateTimeField(db_default=Now(), editable=False)
    actor = models.CharField(max_length=300)  # a user's name, or a token's sub
    via = models.CharField(max_length=32)  # session, root key, key <kid>
    action = models.CharField(max_length=32)
    namespace = models.CharField(max_length=63)
    target = models.CharField(max_length=300)
    before = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    after = models.JSONField(null=True, encoder=DjangoJSONEncoder)

    class Meta:
        db_table = "audit"
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [models.Index(fields=["namespace", "-id"], name="audit_namespace_id")]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.target}"

"""The tenants' records, in the control database."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now

from mqueue.core import names


class Namespace(models.Model):
    """A tenant's own world: its topics, keys, quotas and dead letters."""

    name = models.CharField(max_length=63, unique=True, validators=[RegexValidator(names.NAMESPACE)])
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())

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

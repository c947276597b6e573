"""The control database's record of the deployment and of who owns which slot."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models

from shards.routing import SLOTS


class Deployment(models.Model):
    """One row: the identity that every shard of this deployment also carries."""

    singleton = models.BooleanField(primary_key=True, default=True)
    identity = models.UUIDField(default=uuid.uuid4)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "deployment"
        constraints = [models.CheckConstraint(condition=models.Q(singleton=True), name="deployment_has_one_row")]


class SlotMap(models.Model):
    """One row a version, never changed: the newest is in force, the one before names the previous owners."""

    version = models.AutoField(primary_key=True)
    owners = ArrayField(models.SmallIntegerField(), size=SLOTS)
    reason = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "slot_map"


class SlotMove(models.Model):
    """One move of slots from one shard to another, and how far it is. At most one is not finished."""

    id = models.BigAutoField(primary_key=True)
    slots = ArrayField(models.SmallIntegerField())
    source = models.SmallIntegerField()
    target = models.SmallIntegerField()
    state = models.TextField()
    term = models.BigIntegerField(default=0)
    pause_ms = models.FloatField(null=True)
    progress = models.TextField(default="")
    began_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "slot_move"

"""What the pipeline knows, in the control database: the state of each partition, and the manifest of the lake.

A file is in the lake when it has a row here, and not before: rows come and go in one transaction, files are only
written and deleted.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class Partition(models.Model):
    """One day of one log of one shard, from when it is over. `term` rises with whoever takes it up: only the newest may
    publish."""

    class State(models.TextChoices):
        OPEN = "open"  # its day is over, and it is not sealed yet
        SEALED = "sealed"  # nobody writes to it any more
        ARCHIVING = "archiving"
        PUBLISHED = "published"  # it is in the lake
        DROPPED = "dropped"  # and nowhere else

    shard = models.SmallIntegerField()
    parent = models.CharField(max_length=16)
    day = models.DateField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    term = models.BigIntegerField(default=0)
    rows = models.BigIntegerField(null=True)
    sealed_at = models.DateTimeField(null=True)
    published_at = models.DateTimeField(null=True)
    dropped_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "lake_partition"
        ordering = ["day", "shard", "-parent"]
        constraints = [models.UniqueConstraint(fields=["shard", "parent", "day"], name="lake_partition_once")]

    def __str__(self) -> str:
        return f"shard {self.shard} {self.parent} {self.day}"

    @property
    def table(self) -> str:
        return f"{self.parent}_{self.day:%Y%m%d}"


class File(models.Model):
    """One file of the lake. A retired one is no longer read, and deleted later: somebody may still be at it."""

    partition = models.ForeignKey(Partition, on_delete=models.PROTECT, related_name="files")
    path = models.CharField(max_length=300, unique=True)
    rows = models.BigIntegerField()
    bytes = models.BigIntegerField()
    published_at = models.DateTimeField(db_default=Now())
    retired_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "lake_file"

    def __str__(self) -> str:
        return self.path


class Part(models.Model):
    """What a file holds of one topic, and what all of it has to come to."""

    file = models.ForeignKey(File, on_delete=models.CASCADE, related_name="parts")
    topic = models.IntegerField()
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=128)
    rows = models.BigIntegerField()
    min_id = models.BigIntegerField()
    max_id = models.BigIntegerField()
    bytes = models.BigIntegerField()
    xor = models.BigIntegerField()
    sum = models.BigIntegerField()

    class Meta:
        db_table = "lake_part"
        constraints = [models.UniqueConstraint(fields=["file", "topic"], name="lake_part_once")]
        indexes = [
            models.Index(fields=["topic", "max_id", "min_id"], name="lake_part_topic_ids"),
            models.Index(fields=["namespace", "name"], name="lake_part_names"),
        ]


class Replay(models.Model):
    """One run of a replay. While it is under way, no partition and no file that it may read goes away."""

    class State(models.TextChoices):
        RUNNING = "running"
        DONE = "done"

    name = models.CharField(max_length=32, unique=True)
    wish = models.JSONField()  # what was asked for, as it was
    horizons = ArrayField(models.BigIntegerField())  # by shard: rows of the live log below this txid
    days = ArrayField(models.DateField())  # of the log, that it reads
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    sent = models.BigIntegerField(default=0)
    last_at = models.DateTimeField(null=True)  # enqueued_at and id of the last message that was sent and answered
    last_id = models.BigIntegerField(null=True)
    began_at = models.DateTimeField(db_default=Now())
    touched_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "lake_replay"

    def __str__(self) -> str:
        return self.name


class UsageHour(models.Model):
    """What one topic did in one hour. Messages count when they are enqueued, steps when they happen; times are of those
    whose last step was in the hour."""

    hour = models.DateTimeField()
    topic = models.IntegerField()
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=128)
    messages = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    deliveries = models.BigIntegerField(default=0)
    retries = models.BigIntegerField(default=0)
    acked = models.BigIntegerField(default=0)
    dead = models.BigIntegerField(default=0)
    wait_ms = ArrayField(models.FloatField(), null=True)  # p50, p95, p99: from when it was due to its first delivery
    work_ms = ArrayField(models.FloatField(), null=True)  # from the last delivery to the ack
    total_ms = ArrayField(models.FloatField(), null=True)  # from when it was due to the ack

    class Meta:
        db_table = "usage_hour"
        ordering = ["hour", "namespace", "name"]
        constraints = [models.UniqueConstraint(fields=["topic", "hour"], name="usage_hour_once")]
        indexes = [models.Index(fields=["namespace", "hour"], name="usage_hour_namespace")]


class Failure(models.Model):
    """Messages of a topic that died of the same error, by day."""

    day = models.DateField()
    topic = models.IntegerField()
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=128)
    reason = models.CharField(max_length=16)
    fingerprint = models.TextField()  # the error without what differs from message to message
    sample = models.TextField()  # one of these errors, as it was
    deaths = models.BigIntegerField()
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    sample_id = models.BigIntegerField()

    class Meta:
        db_table = "usage_failure"
        ordering = ["day", "namespace", "name", "-deaths"]
        indexes = [models.Index(fields=["namespace", "day"], name="usage_failure_namespace")]


class RolledUp(models.Model):
    """How far a roll-up has read each shard's log."""

    kind = models.CharField(max_length=16)
    horizons = ArrayField(models.BigIntegerField())
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "usage_rolled_up"
        ordering = ["-id"]


class Table(models.Model):
    """The file of a roll-up of one day."""

    kind = models.CharField(max_length=16)
    day = models.DateField()
    path = models.CharField(max_length=300)

    class Meta:
        db_table = "usage_table"
        constraints = [models.UniqueConstraint(fields=["kind", "day"], name="usage_table_once")]

"""Jobs, in the control database."""

from django.db import models
from django.db.models.functions import Now

from tenants.rules import JOB_KINDS, JOB_STATES, LIVE, QUEUED


class Job(models.Model):
    """Work on many messages that goes on in the background: see `tenants/jobs.py`, which moves it on.

    Who works on it holds it until `held_until`, under a number of his own, `term`. `pending` is what he is about to do:
    whoever goes on after him does that first, so nothing is left out and nothing counts twice.
    """

    namespace = models.ForeignKey("tenants.Namespace", on_delete=models.PROTECT, related_name="jobs")
    kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in JOB_KINDS])
    topic = models.CharField(max_length=128, blank=True, default="")  # of a purge
    filter = models.JSONField(default=dict)
    with_dead = models.BooleanField(default=False)
    is_dry_run = models.BooleanField(default=False)
    rate_per_s = models.IntegerField(null=True)
    most = models.BigIntegerField(null=True)
    state = models.CharField(max_length=16, choices=[(state, state) for state in JOB_STATES], default=QUEUED)
    total = models.BigIntegerField(null=True)
    searched = models.BigIntegerField(default=0)
    matched = models.BigIntegerField(default=0)
    done = models.BigIntegerField(default=0)
    cursor = models.CharField(max_length=100, blank=True, default="")
    pending = models.JSONField(null=True)
    error = models.CharField(max_length=1000, blank=True, default="")
    created_by = models.CharField(max_length=300)
    via = models.CharField(max_length=32)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    term = models.IntegerField(default=0)
    held_until = models.DateTimeField(null=True)

    class Meta:
        db_table = "job"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["namespace", "-id"], name="job_namespace_id"),
            models.Index(fields=["id"], name="job_live", condition=models.Q(state__in=LIVE)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class JobRunner(models.Model):
    """One row: when somebody last looked for jobs to do."""

    singleton = models.BooleanField(primary_key=True, default=True)
    seen_at = models.DateTimeField()

    class Meta:
        db_table = "job_runner"
        constraints = [models.CheckConstraint(condition=models.Q(singleton=True), name="job_runner_has_one_row")]

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_changes")]

    operations = [
        migrations.CreateModel(
            name="JobRunner",
            fields=[
                ("singleton", models.BooleanField(default=True, primary_key=True, serialize=False)),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "db_table": "job_runner",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("singleton", True)), name="job_runner_has_one_row")
                ],
            },
        ),
        migrations.CreateModel(
            name="LoginAttempts",
            fields=[
                ("who", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("count", models.IntegerField()),
                ("since", models.DateTimeField()),
            ],
            options={"db_table": "login_attempts"},
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("replay", "replay"), ("delete", "delete"), ("purge", "purge")], max_length=16
                    ),
                ),
                ("topic", models.CharField(blank=True, default="", max_length=128)),
                ("filter", models.JSONField(default=dict)),
                ("with_dead", models.BooleanField(default=False)),
                ("is_dry_run", models.BooleanField(default=False)),
                ("rate_per_s", models.IntegerField(null=True)),
                ("most", models.BigIntegerField(null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("done", "done"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("total", models.BigIntegerField(null=True)),
                ("searched", models.BigIntegerField(default=0)),
                ("matched", models.BigIntegerField(default=0)),
                ("done", models.BigIntegerField(default=0)),
                ("cursor", models.CharField(blank=True, default="", max_length=100)),
                ("pending", models.JSONField(null=True)),
                ("error", models.CharField(blank=True, default="", max_length=1000)),
                ("created_by", models.CharField(max_length=300)),
                ("via", models.CharField(max_length=32)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("term", models.IntegerField(default=0)),
                ("held_until", models.DateTimeField(null=True)),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="tenants.namespace"
                    ),
                ),
            ],
            options={
                "db_table": "job",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["namespace", "-id"], name="job_namespace_id"),
                    models.Index(
                        condition=models.Q(("state__in", ("queued", "running"))), fields=["id"], name="job_live"
                    ),
                ],
            },
        ),
    ]

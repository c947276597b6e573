import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shards", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="SlotMove",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("slots", django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField())),
                ("source", models.SmallIntegerField()),
                ("target", models.SmallIntegerField()),
                ("state", models.TextField()),
                ("term", models.BigIntegerField(default=0)),
                ("pause_ms", models.FloatField(null=True)),
                ("progress", models.TextField(default="")),
                ("began_at", models.DateTimeField(auto_now_add=True)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "slot_move",
            },
        ),
        # One at a time: whoever comes second finds it.
        migrations.RunSQL(
            "CREATE UNIQUE INDEX slot_move_one_at_a_time ON slot_move ((true)) WHERE finished_at IS NULL",
            "DROP INDEX slot_move_one_at_a_time",
        ),
    ]

from pathlib import Path

from django.db import migrations

FORWARD = (Path(__file__).parent / "sql" / "0002_views.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("pipeline", "0001_lake")]
    operations = [migrations.RunSQL([FORWARD], "DROP VIEW mq.usage_hour, mq.failures")]

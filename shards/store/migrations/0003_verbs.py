from django.db import migrations

from shards.store.sqlfiles import migration_sql


class Migration(migrations.Migration):
    dependencies = [("store", "0002_views")]
    operations = [
        migrations.RunSQL(
            migration_sql("0003_verbs.sql"),
            "ALTER TABLE event DROP COLUMN due; DROP TABLE keyed; DROP FUNCTION ref; DROP TABLE tally, tally_delta; "
            "TRUNCATE idempotency; ALTER TABLE idempotency ADD COLUMN day date NOT NULL",
        )
    ]

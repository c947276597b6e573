from django.db import migrations

from shards.store.sqlfiles import migration_sql


class Migration(migrations.Migration):
    dependencies = [("store", "0005_buffered")]
    operations = [
        migrations.RunSQL(
            migration_sql("0006_seal.sql"),
            "DROP FUNCTION seal_partition; DROP FUNCTION refuse_change CASCADE; DROP FUNCTION log_partitions",
        )
    ]

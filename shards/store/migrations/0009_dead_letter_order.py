from django.db import migrations

from shards.store.sqlfiles import migration_sql

NEW = "DROP INDEX CONCURRENTLY IF EXISTS dead_letter_order"
OLD = "DROP INDEX CONCURRENTLY IF EXISTS dead_letter_died_at"


class Migration(migrations.Migration):
    atomic = False  # an index that is built beside writers wants no transaction
    dependencies = [("store", "0007_usage")]
    operations = [
        migrations.RunSQL([NEW], migrations.RunSQL.noop),  # what a build that was broken off has left
        migrations.RunSQL(migration_sql("0009_dead_letter_order.sql"), [NEW]),
        migrations.RunSQL([OLD], "CREATE INDEX IF NOT EXISTS dead_letter_died_at ON dead_letter (topic, died_at)"),
    ]

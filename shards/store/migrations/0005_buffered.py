from django.db import migrations

from shards.store.sqlfiles import migration_sql


class Migration(migrations.Migration):
    dependencies = [("store", "0004_levels")]
    operations = [migrations.RunSQL(migration_sql("0005_buffered.sql"), "DROP TABLE buffer_mark, buffer_refused")]

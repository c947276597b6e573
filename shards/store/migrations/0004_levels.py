from django.db import migrations

from shards.store.sqlfiles import migration_sql


class Migration(migrations.Migration):
    dependencies = [("store", "0003_verbs")]
    operations = [migrations.RunSQL(migration_sql("0004_levels.sql"), "DROP TABLE level")]

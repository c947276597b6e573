from django.db import migrations

from shards.store.sqlfiles import migration_sql


class Migration(migrations.Migration):
    dependencies = [("store", "0001_initial")]
    operations = [migrations.RunSQL(migration_sql("0002_views.sql"), "DROP SCHEMA mq CASCADE")]

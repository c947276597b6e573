from django.db import migrations

from shards.store.sqlfiles import migration_sql


class Migration(migrations.Migration):
    dependencies = [("store", "0006_seal")]
    operations = [migrations.RunSQL(migration_sql("0007_usage.sql"), "DROP TABLE usage; DROP TABLE usage_mark")]

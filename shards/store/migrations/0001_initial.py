from django.db import migrations

from shards.store.sqlfiles import migration_sql


class Migration(migrations.Migration):
    initial = True
    dependencies: list[tuple[str, str]] = []
    operations = [migrations.RunSQL(migration_sql("0001_initial.sql"))]

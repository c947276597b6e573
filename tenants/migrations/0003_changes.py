from pathlib import Path

from django.db import migrations

FORWARD = (Path(__file__).parent / "sql" / "0003_changes.sql").read_text()
TABLES = ("topic_settings", "namespace_quota", "namespace_key")
BACKWARD = (
    "".join(f"DROP TRIGGER changed ON {table}; DROP TRIGGER removed ON {table}; " for table in TABLES)
    + "DROP FUNCTION settings_changed; DROP FUNCTION settings_removed; DROP TABLE settings_version"
)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_control_plane")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]

from django.db import migrations

from shards.store.sqlfiles import migration_sql


class Migration(migrations.Migration):
    dependencies = [("store", "0009_dead_letter_order")]
    operations = [
        migrations.RunSQL(
            migration_sql("0010_moves.sql"),
            "DROP FUNCTION watch_slot CASCADE; DROP FUNCTION hidden_slots, slot_of; "
            "DROP TABLE moving, moving_change, moving_part",
        )
    ]

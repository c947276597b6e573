from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mqueue.core.conf import conf
from shards.migrate import MigrateError, migrate_all


class Command(BaseCommand):
    help = (
        "Bring the control database and every shard up to date: makes missing databases, migrates, makes partitions "
        "ahead. Safe to run again, by several at once, and while traffic flows."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            migrate_all(conf(), self.stdout.write)
        except MigrateError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(self.style.SUCCESS("control database and shards are up to date"))

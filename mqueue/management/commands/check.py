from typing import Any

from django.core.management.commands.check import Command as DjangoCheck
from django.db import DatabaseError, connections


class Command(DjangoCheck):
    help = "Check the configuration, the code and, unless --database or --tag narrows it, every server behind it."

    def handle(self, *app_labels: Any, **options: Any) -> None:
        if options["databases"] is None and not options["tags"] and not app_labels:
            options["databases"] = [alias for alias in connections if _answers(alias)]
        super().handle(*app_labels, **options)


def _answers(alias: str) -> bool:
    """Django's own checks would end in a traceback at a database that is down; ours report it."""
    try:
        connections[alias].ensure_connection()
    except DatabaseError:
        return False
    return True

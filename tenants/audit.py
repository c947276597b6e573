"""What was changed, by whom: written with the change, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from tenants.askers import Asker
from tenants.models import AuditEntry

Record = dict[str, Any]
PATIENCE = "SELECT set_config('lock_timeout', '3s', true)"
TAKE_TURN = "SELECT FROM settings_version FOR UPDATE"


@contextmanager
def changing() -> Iterator[None]:
    """One transaction, and one at a time: what is read in it is what is changed, and nothing locks crosswise."""
    with transaction.atomic():
        take_turn()
        yield


def take_turn() -> None:
    """For who is in a transaction already."""
    with connection.cursor() as cursor:
        cursor.execute(PATIENCE)
        cursor.execute(TAKE_TURN)


def note(
    asker: Asker, action: str, namespace: str, target: str, *, before: Record | None = None, after: Record | None = None
) -> None:
    """Before is None for what was made, after for what is gone. Never a secret: readers are many."""
    assert connection.in_atomic_block, "an act and its record are one transaction"
    AuditEntry.objects.create(
        actor=asker.name,
        via=asker.via,
        action=action,
        namespace=namespace,
        target=target[:300],
        before=before,
        after=after,
    )

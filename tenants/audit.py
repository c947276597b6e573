"""What was changed, by whom: written with the change, or not at all; before it, where the change is made elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from django.db import connection, transaction
from msgspec import Struct

from tenants.askers import Asker
from tenants.models import AuditEntry

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
    asker: Asker, action: str, namespace: str, target: str, *, before: Struct | None = None, after: Struct | None = None
) -> AuditEntry:
    """Records as they are answered: before is None for what was made, after for what is gone. Never a secret."""
    assert connection.in_atomic_block, "an act and its record are one transaction"
    return AuditEntry.objects.create(
        actor=asker.name,
        via=asker.via,
        action=action,
        namespace=namespace,
        target=target[:300],
        before=msgspec.to_builtins(before),
        after=msgspec.to_builtins(after),
    )


def end(line: AuditEntry, after: Struct) -> None:
    """What came of an act outside the control database. Its line was there before it began: nothing is done unseen."""
    AuditEntry.objects.filter(pk=line.pk).update(after=msgspec.to_builtins(after))

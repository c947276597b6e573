"""Who may change the lake, and the one transaction that does."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import close_old_connections, transaction
from django.db.models import F, Sum
from django.utils import timezone

from pipeline.digests import Sums
from pipeline.errors import Fenced, PipelineError, VerificationFailed
from pipeline.models import File, Part, Partition

State = Partition.State
TO_ARCHIVE = (State.SEALED, State.ARCHIVING)  # the latter where a run was killed


def take_up(partition: Partition) -> Partition:
    """Begin a new term, in the state that it is in: whoever had one before can no longer publish."""
    with transaction.atomic():  # until the term is read, nobody begins another
        Partition.objects.filter(pk=partition.pk).update(term=F("term") + 1)
        partition.refresh_from_db()
    return partition


def take_up_to_archive(partition: Partition) -> Partition:
    """Begin a new term of what is not in the lake, if nobody has begun one since it was read."""
    change(partition, TO_ARCHIVE, term=F("term") + 1, state=State.ARCHIVING)
    return partition


def change(partition: Partition, states: Sequence[State], **to: Any) -> None:
    """In one of these states and of the term that we know; or else another run is at it."""
    with transaction.atomic():
        mine = Partition.objects.filter(pk=partition.pk, state__in=states, term=partition.term)
        if not mine.update(**to):
            raise Fenced(f"{partition} was taken up by another run")
        partition.refresh_from_db()


def publish(partition: Partition, found: Iterable[Any], expected: dict[int, Sums]) -> int:
    """Check what was written against what had to be, and make it the partition's files. Answers the rows."""
    rows = list(found)
    compare(partition, sums_of(rows), expected)
    close_old_connections()  # the copying may have taken longer than a server keeps a silent session
    with transaction.atomic():
        now = timezone.now()
        current = Partition.objects.select_for_update().get(pk=partition.pk)
        if (current.term, current.state) != (partition.term, State.ARCHIVING):
            raise Fenced(f"{partition} was taken up by another run")
        if current.files.filter(retired_at=None).exists():
            raise PipelineError(f"{partition} has files in the lake already, so none are added")
        add_files(current, rows)
        current.state, current.published_at = State.PUBLISHED, now
        current.rows = sum(one.rows for one in expected.values())
        current.save()
    return current.rows


def swap(partition: Partition, old: list[File], rows: Iterable[Any]) -> None:
    """Put what was written in the place of the old files, which stay for those who are reading them."""
    close_old_connections()
    with transaction.atomic():
        current = Partition.objects.select_for_update().get(pk=partition.pk)
        mine = File.objects.filter(pk__in=[file.pk for file in old], retired_at=None)
        if current.term != partition.term or mine.update(retired_at=timezone.now()) != len(old):
            raise Fenced(f"{partition} was taken up by another run")
        add_files(current, rows)
        current.rows = current.files.filter(retired_at=None).aggregate(rows=Sum("rows"))["rows"] or 0
        current.save(update_fields=["rows"])


def add_files(partition: Partition, rows: Iterable[Any]) -> None:
    of_path: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        of_path[row.path].append(row)
    for path, parts in sorted(of_path.items()):
        file = File.objects.create(
            partition=partition, path=path, rows=sum(part.rows for part in parts), bytes=parts[0].size
        )
        Part.objects.bulk_create(
            Part(file=file, topic=one.topic, namespace=one.namespace, name=one.name, rows=one.rows, min_id=one.min_id,
                 max_id=one.max_id, bytes=one.bytes, xor=one.xor, sum=one.sum)
            for one in parts
        )  # fmt: skip


def sums_of(rows: Iterable[Any]) -> dict[int, Sums]:
    """By topic, of rows that carry them: of a task's answer, or of the manifest."""
    found: dict[int, Sums] = {}
    for row in rows:
        one = Sums(row.topic, row.rows, row.min_id, row.max_id, row.bytes, row.xor, row.sum)
        found[one.topic] = found[one.topic] + one if one.topic in found else one
    return found


def compare(what: object, found: dict[int, Sums], expected: dict[int, Sums]) -> None:
    wrong = sorted(topic for topic in found.keys() | expected.keys() if found.get(topic) != expected.get(topic))
    if wrong:
        first = wrong[0]
        raise VerificationFailed(
            f"{what}: {len(wrong)} topics differ, such as {first}: {found.get(first)} has to be {expected.get(first)}"
        )

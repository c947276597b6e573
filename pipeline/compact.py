"""compact: fewer and larger files for each day, each of a range of topics, and nothing that is past its retention.

The archive writes a file for each range of ids, with all topics in it. Merged, the rows of one topic stand together, so
that whoever reads one reads few files.
"""

from collections.abc import Callable, Iterator

from django.db.models import Count, Q

from mqueue.core.conf import Conf
from pipeline.errors import NothingToDo
from pipeline.expiry import Expiry, expiry
from pipeline.log import IN_LAKE
from pipeline.models import Part, Partition
from pipeline.rewrite import Change, rewrite
from pipeline.spark import Sessions
from pipeline.turns import turn

FILE_BYTES = 128 << 20  # of rows, about: what one task holds in memory
ROW_BYTES = {"message": 400, "event": 200}  # of a row beside its payload, as measure_*.sql reckons
Say = Callable[[str], None]


def compact(conf: Conf, sessions: Sessions, say: Say) -> None:
    with turn(conf):
        changes = list(worthwhile(expiry(conf)))
        if not changes:
            raise NothingToDo("Every day has as few files as it can")
        rewrite(conf, sessions, changes, say)


def worthwhile(over: Expiry) -> Iterator[Change]:
    in_use = Count("files", filter=Q(files__retired_at=None))
    for partition in Partition.objects.filter(state__in=IN_LAKE).annotate(in_use=in_use).filter(in_use__gt=0):
        if partition.in_use > 1 or over.touches(partition):
            change = of_partition(partition, over)
            if len(change.new) < len(change.old) or rows_of(change) < sum(file.rows for file in change.old):
                yield change


def of_partition(partition: Partition, over: Expiry) -> Change:
    files = list(partition.files.filter(retired_at=None))
    parts = Part.objects.filter(file__in=files).select_related("file")
    kept = [part for part in parts if not over.is_over(partition, part.topic)]
    return Change(partition, files, packed(kept, ROW_BYTES[partition.parent]))


def packed(parts: list[Part], of_row: int) -> list[list[Part]]:
    """In the order of the rows, as many to a file as fit. What comes of it would be packed in the same way again."""
    files: list[list[Part]] = []
    room = 0
    for part in sorted(parts, key=lambda one: (one.namespace, one.name, one.topic, one.min_id)):
        size = part.bytes + part.rows * of_row
        if not files or size > room:
            files.append([])
            room = FILE_BYTES
        files[-1].append(part)
        room -= size
    return files


def rows_of(change: Change) -> int:
    return sum(part.rows for parts in change.new for part in parts)

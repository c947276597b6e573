"""Roll-ups as Parquet: one file a day and kind, replaced by a newer one of its own name."""

import datetime
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mqueue.core.conf import Conf
from pipeline.models import Table
from pipeline.storage import Storage
from shards.models import Deployment


@dataclass(frozen=True, slots=True)
class DayFile:
    storage: Storage
    kind: str
    day: datetime.date
    path: str
    older: list[str]

    def publish(self) -> None:
        """In the caller's transaction."""
        Table.objects.filter(kind=self.kind, day=self.day).delete()
        Table.objects.create(kind=self.kind, day=self.day, path=self.path)

    def forget_older(self) -> None:
        for path in self.older:
            self.storage.delete(path)


def write_day(conf: Conf, kind: str, day: datetime.date, rows: list[dict[str, Any]]) -> DayFile:
    return write(
        conf, kind, day, pa.Table.from_pylist(rows) if rows else pa.table({"topic_id": pa.array([], pa.int32())})
    )


def without(conf: Conf, table: Table, namespace: str) -> DayFile | None:
    """The file without the namespace's rows; None where there are none."""
    rows = Storage(conf.lake.url).read(table.path)
    if "namespace" not in rows.schema.names:
        return None
    left = rows.filter(pc.not_equal(rows["namespace"], namespace))
    return None if len(left) == len(rows) else write(conf, table.kind, table.day, left)


def write(conf: Conf, kind: str, day: datetime.date, table: pa.Table) -> DayFile:
    storage = Storage(conf.lake.url)
    path = f"{Deployment.objects.get().identity}/{kind}/day={day.isoformat()}/{uuid.uuid4().hex}.parquet"
    storage.write(path, table)
    older = list(Table.objects.filter(kind=kind, day=day).values_list("path", flat=True))
    return DayFile(storage, kind, day, path, older)

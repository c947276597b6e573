"""Roll-ups as Parquet: one file a day and kind, replaced by a newer one of its own name."""

import datetime
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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
    storage = Storage(conf.lake.url)
    path = f"{Deployment.objects.get().identity}/{kind}/day={day.isoformat()}/{uuid.uuid4().hex}.parquet"
    storage.write(path, pa.Table.from_pylist(rows) if rows else pa.table({"topic_id": pa.array([], pa.int32())}))
    older = list(Table.objects.filter(kind=kind, day=day).values_list("path", flat=True))
    return DayFile(storage, kind, day, path, older)

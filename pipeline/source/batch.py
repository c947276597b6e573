"""spark.read.format("mqueue"): the log as it is when Spark plans the read, lake and shards together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mqueue.core.conf import conf
from pipeline.chunks import Names
from pipeline.pieces import Piece
from pipeline.source import filters, reading
from pipeline.source.columns import check_schema
from pipeline.source.options import EARLIEST, LATEST, Asked
from pipeline.source.planning import days_of, offsets, planning, topics_of
from pipeline.source.reading import Part, Rows


def rows_of(asked: Asked, schema: StructType) -> Rows:
    arrow = to_arrow_schema(schema, timezone="UTC")
    check_schema(asked.layout, arrow)
    lake = asked.lake or conf().lake.url
    return Rows(asked.layout.parent, arrow, lake, asked.first, asked.last)


class Reader(DataSourceReader):
    def __init__(self, asked: Asked, schema: StructType) -> None:
        self._asked = asked
        self._rows = rows_of(asked, schema)
        self._filters: list[Filter] = []

    def partitions(self) -> Sequence[InputPartition]:
        with planning() as configuration:
            from pipeline.log import Wanted, pieces  # models need Django to be set up

            low, high = offsets(self._asked.starting, EARLIEST), offsets(self._asked.ending, LATEST)
            names = self._left(topics_of(self._asked))
            if not names:
                return [NOTHING]
            wanted = Wanted(days_of(self._asked), names)
            rows = self._asked.rows_per_partition
            found = pieces(configuration, self._asked.layout.parent, wanted, high, rows)
        return [part for piece in found for part in parts(piece, low[piece.shard], names, rows)] or [NOTHING]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Part):
            return iter(())
        return reading.read(self._rows, partition)

    def _left(self, names: Names) -> Names:
        """Of the topics, those that the filters leave."""
        namespaces = filters.names_chosen(self._filters, "namespace")
        topics = filters.names_chosen(self._filters, "topic")
        return {
            number: name
            for number, name in names.items()
            if (namespaces is None or name[0] in namespaces) and (topics is None or name[1] in topics)
        }


class PushingReader(Reader):
    """Spark refuses a reader that has this method while the setting is off."""

    def pushFilters(self, filters_given: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        self._filters = list(filters_given)
        self._rows = replace(self._rows, comparisons=filters.comparisons(self._asked.layout, self._filters))
        return self._filters  # Spark looks at the rows once more


NOTHING = InputPartition(None)  # Spark wants at least one


def parts(piece: Piece, low: int, names: Names, rows: int | None) -> Iterator[Part]:
    """A file is split by its groups of rows; a shard's rows come in pieces already."""
    count = -(-piece.rows // rows) if rows and piece.path else 1
    for number in range(count):
        yield Part(piece.shard, low, piece.horizon, names, [piece], number, count)

"""spark.readStream.format("mqueue"). An offset is a txid for each shard: all rows below it have been read, and none of
them commits later."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pipeline.chunks import Names
from pipeline.errors import PipelineError
from pipeline.pieces import Piece
from pipeline.source import reading
from pipeline.source.batch import rows_of
from pipeline.source.measuring import Files, Measuring
from pipeline.source.options import LATEST, Asked
from pipeline.source.planning import offsets, planning, topics_of
from pipeline.source.reading import Part
from pipeline.source.sizes import admit, cut

Offset = dict[str, int]
ROWS_PER_PARTITION = 100_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, asked: Asked, schema: StructType) -> None:
        if asked.ending is not None:
            raise PipelineError("endingOffsets is for a batch: a stream goes on")
        self._asked, self._rows = asked, rows_of(asked, schema)
        self._files = Files(self._rows.lake)
        self._goal: list[int] | None = None  # of Trigger.AvailableNow
        self._empty: list[int] = []  # by shard: nothing is below that has not been read

    def initialOffset(self) -> Offset:  # noqa: N802  these names are Spark's
        with planning():
            return _as_offset(offsets(self._asked.starting, LATEST))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._asked.max_rows) if self._asked.max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with planning():
            self._goal = offsets(LATEST, LATEST)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The start itself where nothing is to be read, or Spark would run empty batches without end."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with planning():
            high = self._goal or offsets(LATEST, LATEST)
            low = [start.get(str(shard), 0) for shard in range(len(high))]
            names = topics_of(self._asked)  # after the horizon: who has rows below it has a name by now
            ends = self._ends(low, high, names, most)
        return start if ends is None else _as_offset(ends)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        most = self._asked.rows_per_partition or ROWS_PER_PARTITION
        with planning():
            names = topics_of(self._asked)
            while True:
                measuring = Measuring(self._rows, self._asked, names, self._files)
                found = [
                    Part(int(shard), one.low, one.high, names, _sorted(one.places), in_order=True)
                    for shard, high in sorted(end.items())
                    for one in cut(measuring.between(int(shard), start.get(shard, 0), high), most)
                ]
                if measuring.is_valid():
                    return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return reading.read(self._rows, partition)

    def _ends(self, low: list[int], high: list[int], names: Names, most: int | None) -> list[int] | None:
        since = [max(pair) for pair in zip(low, self._empty or low, strict=True)]
        while True:
            measuring = Measuring(self._rows, self._asked, names, self._files)
            found = [measuring.some(shard, since[shard], high[shard], most) for shard in range(len(high))]
            if measuring.is_valid():
                break
        sizes = [one for one, _ in found]
        if not any(sizes):
            self._empty = [max(pair) for pair in zip(since, high, strict=True)]
            return None
        bounds = admit(sizes, most) if most else [None] * len(sizes)
        return [
            max(low[shard], end if bound is None else bound)
            for shard, (bound, (_, end)) in enumerate(zip(bounds, found, strict=True))
        ]


def _as_offset(txids: list[int]) -> Offset:
    return {str(shard): txid for shard, txid in enumerate(txids)}


def _sorted(places: frozenset[Piece]) -> list[Piece]:
    return sorted(places, key=lambda place: (place.path, place.day))

"""What Spark knows by the name `mqueue`."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)  # fmt: skip
from pyspark.sql.types import StructType

from pipeline.errors import PipelineError
from pipeline.source.batch import PushingReader, Reader
from pipeline.source.columns import ddl, full_schema
from pipeline.source.options import read_options
from pipeline.source.outgoing import Sink, write_options
from pipeline.source.streaming import StreamReader
from pipeline.source.writing import StreamWriter, Writer


class Mqueue(DataSource):
    @classmethod
    def name(cls) -> str:
        return "mqueue"

    def schema(self) -> str:
        return ddl(full_schema(read_options(self.options).layout))

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's names
        return StreamReader(read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return Writer(self._sink(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return StreamWriter(self._sink(schema, overwrite))

    def _sink(self, schema: StructType, overwrite: bool) -> Sink:
        if overwrite:
            raise PipelineError("A topic is a log: mode append adds to it, and nothing overwrites it")
        return write_options(self.options, schema.names)


class PushingMqueue(Mqueue):
    """Where filters are pushed down."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return PushingReader(read_options(self.options), schema)

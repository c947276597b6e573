"""Files of the lake: written once under a name of their own, never renamed and never written over, so that an object
store can hold them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from shards.lake import open_lake

ROWS_A_GROUP = 16_384  # what a look-up of one message has to unpack
LEVEL = 3
RISING = {"id", "txid", "enqueued_at", "at"}
UNLIKE = {*RISING, "traceparent", "idempotency_key", "payload"}  # seldom twice the same: a dictionary is of no use


@dataclass(frozen=True, slots=True)
class Storage:
    url: str

    def write(self, path: str, table: pa.Table) -> int:
        """The file is on the disk when this returns; its size."""
        system, place = self._place(path)
        if isinstance(system, fs.LocalFileSystem):
            system.create_dir(str(Path(place).parent), recursive=True)
        with system.open_output_stream(place) as stream:
            pq.write_table(
                table,
                stream,
                compression="zstd",
                compression_level=LEVEL,
                row_group_size=ROWS_A_GROUP,
                use_dictionary=[name for name in table.column_names if name not in UNLIKE],
                column_encoding={name: "DELTA_BINARY_PACKED" for name in table.column_names if name in RISING},
            )
        if isinstance(system, fs.LocalFileSystem):
            _sync(Path(place), Path(open_lake(self.url)[1]))
        return int(system.get_file_info(place).size)

    def write_batches(self, path: str, tables: Sequence[pa.Table]) -> None:
        """As an Arrow file with a batch for each, for what is read once and soon: nobody waits for the disk."""
        system, place = self._place(path)
        if isinstance(system, fs.LocalFileSystem):
            system.create_dir(str(Path(place).parent), recursive=True)
        with system.open_output_stream(place) as sink, pa.ipc.new_file(sink, tables[0].schema) as file:
            for table in tables:
                file.write_table(table.combine_chunks())

    def read_batch(self, path: str, number: int) -> pa.Table:
        """One of them; a file of this machine is mapped, not copied."""
        system, place = self._place(path)
        is_here = isinstance(system, fs.LocalFileSystem)
        with (
            pa.memory_map(place) if is_here else system.open_input_file(place) as source,
            pa.ipc.open_file(source) as file,
        ):
            return pa.Table.from_batches([file.get_batch(number)])

    def read(
        self,
        path: str,
        columns: list[str] | None = None,
        topics: list[int] | None = None,
        ids: tuple[int, int] | None = None,
        kinds: Sequence[int] = (),
    ) -> pa.Table:
        """Of these topics alone, of a range of ids, or of these kinds of events, if they are told."""
        system, place = self._place(path)
        wanted = []
        if topics is not None:
            wanted.append(pc.field("topic_id").isin(topics))
        if ids is not None:
            wanted.append((pc.field("id") >= ids[0]) & (pc.field("id") <= ids[1]))
        if kinds:
            wanted.append(pc.field("kind").isin(kinds))
        with system.open_input_file(place) as file:
            return pq.read_table(file, columns=columns, filters=reduce(and_, wanted) if wanted else None)

    def exists(self, path: str) -> bool:
        system, place = self._place(path)
        return bool(system.get_file_info(place).type == fs.FileType.File)

    def delete(self, path: str) -> None:
        system, place = self._place(path)
        if self.exists(path):
            system.delete_file(place)

    def list(self, folder: str) -> Iterator[str]:
        """Every file below a folder, as the manifest names it."""
        system, place = self._place(folder)
        _, root = open_lake(self.url)
        for found in system.get_file_info(fs.FileSelector(place, recursive=True, allow_not_found=True)):
            if found.type == fs.FileType.File:
                yield found.path[len(root) + 1 :]

    def _place(self, path: str) -> tuple[fs.FileSystem, str]:
        system, root = open_lake(self.url)
        return system, f"{root}/{path}"


def _sync(file: Path, root: Path) -> None:
    """The file, and the names that lead to it: the shard's rows may be dropped on the strength of them."""
    for path in (file, *file.parents):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if path == root:
            break

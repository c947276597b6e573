"""The plainest copy: ADBC to pyarrow, range by range, neither sorted nor checked, without Spark.

python -m bench.pipeline.plain FOLDER DAY
"""

import datetime
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psycopg
import pyarrow.parquet as pq

from mqueue.core.conf import conf
from pipeline.chunks import CHUNK_BYTES
from pipeline.layout import MESSAGE
from pipeline.pull import pull
from shards.sql import statement

Range = tuple[Path, int, datetime.date, int, int]


def copy(one: Range) -> int:
    folder, shard, day, low, high = one
    table = pull(MESSAGE, shard, day, low, high)
    pq.write_table(table, folder / f"{shard}-{low}.parquet", compression="zstd", compression_level=3)
    return int(table.num_rows)


def ranges(folder: Path, day: datetime.date) -> list[Range]:
    found: list[Range] = []
    for shard, url in enumerate(conf().shard_urls):
        with psycopg.connect(url) as connection:
            asked = {"day": day, "horizon": 1 << 62, "topics": None, "most": CHUNK_BYTES}
            found += [(folder, shard, day, low, high) for low, high in connection.execute(statement("splits"), asked)]
    return found


if __name__ == "__main__":
    target, of_day = Path(sys.argv[1]), datetime.date.fromisoformat(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(copy, ranges(target, of_day))), "rows")

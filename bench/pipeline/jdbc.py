"""The usual way of Spark: spark.read.jdbc, range by range, sorted like the archive, to Parquet. Nothing is checked.

python -m bench.pipeline.jdbc FOLDER DAY PORT
"""

import datetime
import sys
from functools import reduce
from pathlib import Path
from urllib.parse import urlsplit

from bench.pipeline.plain import ranges
from mqueue.core.conf import conf
from pipeline.session import session

JAR = Path("/usr/share/java/postgresql.jar")  # Debian's libpostgresql-jdbc-java
COLUMNS = (
    "m.id, m.txid, m.enqueued_at, m.deliver_after, m.ttl_ms, m.topic AS topic_id, m.day, m.payload_bytes, "
    "m.max_retries, m.priority, m.is_json, m.headers::text AS headers, m.retry::text AS retry, m.traceparent, "
    "m.producer, m.idempotency_key, m.ordering_key, m.concurrency_key, m.payload, t.namespace, t.name AS topic"
)


def copy(folder: Path, day: datetime.date, port: int) -> None:
    query = f"(SELECT {COLUMNS} FROM message m JOIN topic t ON t.id = m.topic WHERE m.day = '{day}') rows"
    with session("jdbc", spark__jars=str(JAR)) as spark:
        frames = []
        for shard, url in enumerate(conf().shard_urls):
            parts = urlsplit(url)
            asked = {"user": parts.username or "", "driver": "org.postgresql.Driver", "fetchsize": "10000"}
            wanted = [f"id BETWEEN {low} AND {high}" for _, of, _, low, high in ranges(folder, day) if of == shard]
            target = f"jdbc:postgresql://127.0.0.1:{port}{parts.path}?sslmode=disable"
            frames.append(spark.read.jdbc(target, query, predicates=wanted, properties=asked))
        rows = reduce(lambda left, right: left.union(right), frames)
        rows.sortWithinPartitions("namespace", "topic", "id").write.option("compression", "zstd").parquet(str(folder))


if __name__ == "__main__":
    copy(Path(sys.argv[1]), datetime.date.fromisoformat(sys.argv[2]), int(sys.argv[3]))

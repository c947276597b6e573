"""The same hourly roll-up by DuckDB, from the same files; the seconds of each, as JSON. In the peers' environment.

python duck.py TIMES LAKE
"""

import json
import sys
import time

import duckdb

QUERY = """
WITH message AS (
    SELECT id, topic_id, namespace, topic, enqueued_at, payload_bytes,
           greatest(enqueued_at, coalesce(deliver_after, enqueued_at)) AS due
    FROM read_parquet('{lake}/*/message/*/*/*.parquet', hive_partitioning = false)
), event AS (
    SELECT id, topic_id, namespace, topic, "at", epoch, kind
    FROM read_parquet('{lake}/*/event/*/*/*.parquet', hive_partitioning = false)
), sent AS (
    SELECT epoch_us(enqueued_at) // 3600000000 AS hour, topic_id, namespace, topic, count(*) AS messages,
           sum(payload_bytes) AS bytes
    FROM message GROUP BY ALL
), steps AS (
    SELECT epoch_us("at") // 3600000000 AS hour, topic_id, namespace, topic,
           count(*) FILTER (kind IN (2, 3)) AS deliveries, count(*) FILTER (kind = 3) AS retries,
           count(*) FILTER (kind = 8) AS acked, count(*) FILTER (kind = 9) AS dead
    FROM event GROUP BY ALL
), timed AS (
    SELECT epoch_us(e."at") // 3600000000 AS hour, e.topic_id, e.namespace, e.topic,
           CASE WHEN e.kind = 2 THEN greatest(0, epoch_us(e."at") - epoch_us(m.due)) / 1000 END AS wait_ms,
           CASE WHEN e.kind = 8 THEN greatest(0, epoch_us(e."at") - epoch_us(d."at")) / 1000 END AS work_ms,
           CASE WHEN e.kind = 8 THEN greatest(0, epoch_us(e."at") - epoch_us(m.due)) / 1000 END AS total_ms
    FROM event e LEFT JOIN message m USING (id)
    LEFT JOIN event d ON d.id = e.id AND d.epoch = e.epoch AND d.kind IN (2, 3)
    WHERE e.kind IN (2, 8)
), times AS (
    SELECT hour, topic_id, namespace, topic, quantile_cont(wait_ms, [0.5, 0.95, 0.99]) AS wait_ms,
           quantile_cont(work_ms, [0.5, 0.95, 0.99]) AS work_ms, quantile_cont(total_ms, [0.5, 0.95, 0.99]) AS total_ms
    FROM timed GROUP BY ALL
)
SELECT * FROM sent FULL JOIN steps USING (hour, topic_id, namespace, topic)
FULL JOIN times USING (hour, topic_id, namespace, topic) ORDER BY hour, topic_id
"""


def main(times: int, lake: str) -> list[float]:
    taken = []
    with duckdb.connect() as connection:
        for _ in range(times):
            began = time.monotonic()
            rows = connection.execute(QUERY.format(lake=lake)).fetchall()
            assert rows
            taken.append(time.monotonic() - began)
    return taken


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2])))

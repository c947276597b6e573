"""A past by SQL: messages of a day that is over, each delivered and acked."""

import datetime

import psycopg

from mqueue.core.conf import Conf

TOPICS = 20
PAYLOAD = 200
MESSAGES = """
INSERT INTO message (id, enqueued_at, topic, day, payload_bytes, priority, is_json, payload, producer)
SELECT (%(first)s + n) * 1024 + n %% {topics},
       %(at)s + n * interval '20 ms', 1 + n %% {topics}, %(day)s, {size}, 5, true,
       convert_to('"' || left(repeat(md5(n::text), 1 + {size} / 32), {size} - 2) || '"', 'UTF8'), 'bench'
FROM generate_series(0, %(rows)s - 1) n
"""
EVENTS = """
INSERT INTO event (id, topic, epoch, attempt, kind, consumer, at)
SELECT id, topic, 1, 1, kind, 'bench', enqueued_at + (1 + kind) * interval '10 ms' * (1 + id %% 7)
FROM message, unnest(ARRAY[2, 8]::smallint[]) kind WHERE day = %(day)s
"""


def make(conf: Conf, day: datetime.date, rows: int) -> None:
    """So many messages in all, spread over the shards."""
    at = datetime.datetime.combine(day, datetime.time(1), datetime.UTC)
    share = rows // len(conf.shard_urls)
    for shard, url in enumerate(conf.shard_urls):
        values = {"first": 1 + shard * rows, "at": at, "day": day, "rows": share}
        with psycopg.connect(url, autocommit=True) as connection:
            for parent in ("message", "event"):
                connection.execute("SELECT make_partition(%s, %s)", [parent, day])
            connection.execute(
                "INSERT INTO topic SELECT n, 'bench', 't' || n FROM generate_series(1, %s) n ON CONFLICT DO NOTHING",
                [TOPICS],
            )
            for statement in (MESSAGES, EVENTS):
                connection.execute(statement.format(topics=TOPICS, size=PAYLOAD), values)
            for parent in ("message", "event"):
                connection.execute(f"VACUUM (ANALYZE) {parent}_{day:%Y%m%d}")

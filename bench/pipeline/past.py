"""A past by SQL: messages of a day that is over, each delivered and acked, in topics that the service knows."""

import datetime
import json
from urllib.request import Request, urlopen

import psycopg

from bench.service import Service
from shards.ids import slot_of_id

NAMESPACE = "bench"
TOPICS = 20
PAYLOAD = 200
MESSAGES = """
INSERT INTO message (id, enqueued_at, topic, day, payload_bytes, priority, is_json, payload, producer)
SELECT (%(first)s::bigint + n) * 1024 + slot, %(at)s + n * interval '20 ms', topic, %(day)s, {size}, 5, true,
       convert_to('"' || left(repeat(md5(n::text), 1 + {size} / 32), {size} - 2) || '"', 'UTF8'), 'bench'
FROM generate_series(0, %(rows)s - 1) n
JOIN unnest(%(topics)s::integer[], %(slots)s::integer[]) WITH ORDINALITY AS own (topic, slot, place)
    ON place = 1 + n %% cardinality(%(topics)s::integer[])
ORDER BY n
"""
EVENTS = """
INSERT INTO event (id, topic, epoch, attempt, kind, consumer, at)
SELECT id, topic, 1, 1, kind, 'bench', enqueued_at + (1 + kind) * interval '10 ms' * (1 + id / 1024 %% 7)
FROM message, unnest(ARRAY[2, 8]::smallint[]) kind WHERE day = %(day)s
"""


def make_messages(service: Service, day: datetime.date, rows: int, first: int = 10**6) -> None:
    """So many in all, spread over the shards; their ids count from `first` on."""
    at = datetime.datetime.combine(day, datetime.time(1), datetime.UTC)
    make_topics(service)
    share = rows // len(service.conf.shard_urls)
    for shard, url in enumerate(service.conf.shard_urls):
        with psycopg.connect(url, autocommit=True) as connection:
            topics = connection.execute("SELECT topic, min(id) FROM message GROUP BY 1 ORDER BY 1").fetchall()
            numbers, slots = [row[0] for row in topics], [slot_of_id(row[1]) for row in topics]
            values = {"first": first + shard * rows, "at": at, "day": day, "rows": share, "topics": numbers}
            connection.execute("SELECT make_partition('message', %s)", [day])
            connection.execute(MESSAGES.format(size=PAYLOAD), values | {"slots": slots})
            connection.execute(f"VACUUM (ANALYZE) message_{day:%Y%m%d}")


def make_events(service: Service, day: datetime.date) -> None:
    """Of the messages of that day, two each."""
    for url in service.conf.shard_urls:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT make_partition('event', %s)", [day])
            connection.execute(EVENTS, {"day": day})
            connection.execute(f"VACUUM (ANALYZE) event_{day:%Y%m%d}")


def make_topics(service: Service) -> None:
    """By a message each, today."""
    messages = [{"namespace": NAMESPACE, "topic": f"t{n}", "body": n} for n in range(TOPICS)]
    headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}
    with urlopen(Request(f"{service.conf.api.origin}/enqueue", json.dumps(messages).encode(), headers)) as answer:
        assert answer.status == 200

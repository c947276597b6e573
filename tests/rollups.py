"""What the pipeline would have landed in the control database, put there by hand."""

import datetime
from typing import Any

from psycopg.rows import tuple_row

HOUR = """
INSERT INTO usage_hour (hour, topic, namespace, name, messages, bytes, deliveries, retries, acked, dead, wait_ms,
                        work_ms, total_ms)
VALUES (%(hour)s, %(topic)s, %(namespace)s, %(name)s, %(messages)s, %(bytes)s, %(deliveries)s, %(retries)s, %(acked)s,
        %(dead)s, %(wait_ms)s, %(work_ms)s, %(total_ms)s)
"""
FAILURE = """
INSERT INTO usage_failure (day, topic, namespace, name, reason, fingerprint, sample, deaths, first_at, last_at,
                           sample_id)
VALUES (%(day)s, %(topic)s, %(namespace)s, %(name)s, %(reason)s, %(fingerprint)s, %(sample)s, %(deaths)s, %(first_at)s,
        %(last_at)s, %(sample_id)s)
"""
COUNTS = ("messages", "bytes", "deliveries", "retries", "acked", "dead")
TIMES = ("wait_ms", "work_ms", "total_ms")
Control = Any  # a connection to the control database


def number_of(control: Control, namespace: str, name: str) -> int:
    """A topic's, or any other that no topic has."""
    row = (
        control.cursor(row_factory=tuple_row)
        .execute(
            "SELECT coalesce((SELECT t.id FROM topic t JOIN namespace n ON n.id = t.namespace_id WHERE n.name = %s AND "
            "t.name = %s), 1000000000 + hashtext(%s || ':' || %s) / 4)",
            [namespace, name, namespace, name],
        )
        .fetchone()
    )
    return int(row[0])


def add_hour(control: Control, namespace: str, name: str, hour: datetime.datetime, **fields: Any) -> None:
    times = {name: list(map(float, fields[name])) if name in fields else None for name in TIMES}
    row = dict.fromkeys(COUNTS, 0) | fields | times
    named = {"hour": hour, "topic": number_of(control, namespace, name), "namespace": namespace, "name": name}
    control.execute(HOUR, row | named)


def add_failure(
    control: Control, namespace: str, name: str, day: datetime.date, fingerprint: str, deaths: int, **fields: Any
) -> None:
    noon = datetime.datetime.combine(day, datetime.time(12), datetime.UTC)
    row = {"reason": "max_retries", "sample": fingerprint, "first_at": noon, "last_at": noon, "sample_id": 5} | fields
    named = {"topic": number_of(control, namespace, name), "namespace": namespace, "name": name}
    control.execute(FAILURE, row | named | {"day": day, "fingerprint": fingerprint, "deaths": deaths})


def tell_rolled_up(control: Control) -> None:
    for kind in ("usage", "failures"):
        control.execute("INSERT INTO usage_rolled_up (kind, horizons) VALUES (%s, '{1,1}')", [kind])

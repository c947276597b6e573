"""What the hot statements read does not grow with rows that are none of their business."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from daemons.flusher import Flusher
from mqueue.core.conf import Conf
from mqueue.engine.engine import Engine
from shards.arrays import Int4s, Int8s, Texts, Timestamps, array
from shards.sql import statement
from tests.letters import bury
from tests.servers import conf_of, running

MANY = 30_000
ADD = """
INSERT INTO message (id, topic, day, priority, is_json, payload, payload_bytes)
SELECT n, %(topic)s, current_date, %(priority)s, true, '1', 1 FROM generate_series(%(first)s::bigint, %(last)s) n
"""
LEVEL = "INSERT INTO level VALUES (%(topic)s, %(priority)s) ON CONFLICT DO NOTHING"
QUEUE = """
INSERT INTO delivery (id, topic, day, priority, due, state, until)
SELECT n, %(topic)s, current_date, %(priority)s, now() + %(due)s::interval, %(state)s,
       CASE WHEN %(state)s > 0 THEN now() + interval '1 hour' END
FROM generate_series(%(first)s::bigint, %(last)s) n
"""


class Shard:
    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self.connection = connection
        self.next = 1

    def add(
        self, count: int, *, topic: int = 1, priority: int = 5, due: str = "-1 minute", state: int = 0
    ) -> list[int]:
        first, self.next = self.next, self.next + count
        fields = {"topic": topic, "priority": priority, "due": due, "state": state}
        for query in (LEVEL, ADD, QUEUE):
            self.connection.execute(query, fields | {"first": first, "last": first + count - 1})
        self.connection.execute("ANALYZE delivery; ANALYZE message")
        return list(range(first, first + count))

    def plan(self, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Of a run that is taken back."""
        with self.connection.transaction(force_rollback=True):
            row = self.connection.execute(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement(name),
                parameters,  # type: ignore[operator]
            ).fetchone()
        assert row
        plan: dict[str, Any] = row[0][0]["Plan"]
        return plan

    def buffers(self, name: str, parameters: dict[str, Any]) -> int:
        plan = self.plan(name, parameters)
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def nodes_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for part in plan.get("Plans", []) for node in nodes_of(part))]


def unbounded_reads(plan: dict[str, Any]) -> list[str]:
    """Nodes that read many rows of a table, and not by a condition on its index."""
    found = []
    for node in nodes_of(plan):
        table = node.get("Relation Name", node.get("Index Name", ""))
        reads = (
            node["Node Type"].endswith("Scan") and node["Actual Rows"] + node.get("Rows Removed by Filter", 0) > 1_000
        )
        if reads and "Index Cond" not in node and node["Node Type"] != "Bitmap Heap Scan":
            found.append(f"{node['Node Type']} of {table}")
    return found


@pytest.fixture
def shard(fresh_databases: str, configuration: Conf) -> Iterator[Shard]:
    with psycopg.connect(running().url(f"{fresh_databases}_shard_0"), autocommit=True) as connection:
        yield Shard(connection)


CLAIM = {
    "topic": [1],
    "priority": [0],
    "due": ["-infinity"],
    "id": [0],
    "wanted": [100],
    "start": [0],
    "traced": [True],
    "visibility_ms": array(Int4s, [30_000] * 100),
    "consumer": array(Texts, ["c"] * 100),
    "most": 1 << 24,
}
FILL = {"topic": 1, "priority": 0, "due": "-infinity", "id": 0, "limit": 100}
AHEAD = {"topic": [1], "since": [None], "until": "2026-01-01", "limit": 100}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("claim", CLAIM), ("fill", FILL), ("next_due", {"topic": 1})],
    ids=["claim", "fill", "next"],
)
@pytest.mark.parametrize(
    "others",
    [
        {"priority": 1, "due": "1 hour"},
        {"priority": 1, "state": 2},
        {"topic": 2, "priority": 0},
        {"priority": 9},
    ],
    ids=["scheduled and more urgent", "leased", "of another topic", "less urgent"],
)
def test_reads_do_not_grow_with(shard: Shard, name: str, parameters: dict[str, Any], others: dict[str, Any]) -> None:
    shard.add(1_000)
    shard.add(10, **others)
    before = shard.buffers(name, parameters)
    shard.add(MANY, **others)
    assert shard.buffers(name, parameters) < 2 * before + 50


def test_a_fill_from_a_place_does_not_wade_through_dead_rows(shard: Shard, fresh_databases: str) -> None:
    """A snapshot that is held keeps them; the place is behind them."""
    shard.add(MANY, due="-2 minutes")
    shard.add(1_000)
    url = running().url(f"{fresh_databases}_shard_0")
    with psycopg.connect(url) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1 FROM delivery LIMIT 1")
        row = shard.connection.execute("SELECT due, id FROM delivery WHERE id = %s", [MANY + 1]).fetchone()
        assert row
        from_place = FILL | {"priority": 5, "due": row[0], "id": row[1]}
        before = shard.buffers("fill", from_place)
        shard.connection.execute("DELETE FROM delivery WHERE id <= %s", [MANY])
        assert shard.buffers("fill", from_place) < 2 * before + 50
        assert shard.buffers("fill", FILL) > 2 * before + 50  # what a scan from the head would cost


@pytest.mark.parametrize("name", ["claim", "ahead", "next_due", "overdue"])
def test_what_reads_again_and_again_does_not_wade_through_dead_rows(
    shard: Shard, fresh_databases: str, name: str
) -> None:
    """Messages that were leased and acked under a snapshot that is held lie dead at the head of every index."""
    gone = shard.add(MANY, due="-2 minutes")
    shard.add(200)
    row = shard.connection.execute("SELECT due, id FROM delivery WHERE id = %s", [MANY + 1]).fetchone()
    assert row
    parameters = {
        "claim": CLAIM | {"priority": [5], "due": [row[0]], "id": [row[1]]},
        "ahead": AHEAD | {"until": "2126-01-01"},
        "next_due": {"topic": 1},
        "overdue": {"limit": 100, "back_s": 6.0},
    }[name]
    with psycopg.connect(running().url(f"{fresh_databases}_shard_0")) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1 FROM delivery LIMIT 1")
        before = shard.buffers(name, parameters)
        leased = "UPDATE delivery SET state = 2, until = now() - interval '1 minute' WHERE id = ANY(%s)"
        shard.connection.execute(leased, [gone])
        shard.connection.execute("DELETE FROM delivery WHERE id = ANY(%s)", [gone])
        shard.connection.execute("ANALYZE delivery")
        assert shard.buffers(name, parameters) < 2 * before + 50


def test_a_page_of_dead_letters_does_not_wade_through_those_of_another_topic(shard: Shard) -> None:
    for number in (1, 2):
        query = "INSERT INTO topic (id, namespace, name) VALUES (%s, 'n', %s)"
        shard.connection.execute(query, [number, f"t{number}"])
    shard.connection.execute("""
        INSERT INTO dead_letter (id, enqueued_at, topic, day, epoch, payload_bytes, attempts, priority, is_json,
                                 payload, reason)
        SELECT n, now(), 1, current_date, 1, 1, 1, 5, true, '1', 'expired' FROM generate_series(1::bigint, 100000) n
    """)
    shard.connection.execute("ANALYZE dead_letter; ANALYZE topic")
    parameters = {"namespace": "n", "topic": None, "after": 5, "limit": 100}
    for mode in ("force_custom_plan", "force_generic_plan"):
        shard.connection.execute(f"SET plan_cache_mode = {mode}")
        assert shard.buffers("dead_page", parameters) < 50


def test_a_page_of_stats_sums_the_counts_once_and_not_for_each_topic(shard: Shard) -> None:
    """Also where the planner takes this namespace for one like the others, of a topic each, and loops."""
    of_many = "CASE WHEN n > 1000 THEN 'n' || n ELSE 'n' END"
    topics = f"INSERT INTO topic (id, namespace, name) SELECT n, {of_many}, 't' || n FROM generate_series(1, 5000) n"
    shard.connection.execute(topics)
    shard.connection.execute("INSERT INTO tally SELECT n, 1, 1, 0, 0 FROM generate_series(1, 5000) n")
    shard.connection.execute("ANALYZE topic; ANALYZE tally")
    shard.connection.execute("SET plan_cache_mode = force_generic_plan")
    shard.connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off")
    plan = shard.plan("stats", {"namespace": "n", "topic": None, "after": "", "limit": 1_000})
    sums = [node for node in nodes_of(plan) if "Group Key" in node]
    assert sums
    assert {node["Actual Loops"] for node in sums} == {1}


SEARCH = dict.fromkeys(("since", "id", "reason", "min_attempts", "max_attempts", "error", "text", "phrase"))
SEARCH |= {"namespace": "n", "topic": [1, 2]}


@pytest.mark.parametrize("portion", [10, 500, 5_000])
def test_a_search_looks_at_its_portion_and_no_more(shard: Shard, portion: int) -> None:
    """Wherever it goes on: among the latest, in the midst of many, for a text that is nowhere, in an empty time."""
    topics = "INSERT INTO topic (id, namespace, name) VALUES (1, 'n', 'a'), (2, 'n', 'b'), (3, 'm', 'c')"
    shard.connection.execute(topics)
    for topic in (1, 2, 3):
        bury(shard.connection, topic, topic, 50_000, first=topic << 20)
    shard.connection.execute("ANALYZE dead_letter; ANALYZE topic")
    midst = "SELECT died_at, id FROM dead_letter WHERE topic = 1 ORDER BY died_at OFFSET 9000"
    row = shard.connection.execute(midst).fetchone()
    assert row
    top = {"before": ["9999-01-01"] * 2, "before_id": [2**53] * 2}
    for asked in (
        {},
        {"before": [row[0]] * 2, "before_id": [row[1]] * 2},
        {"text": "nowhere", "phrase": "nowhere"},
        {"reason": "expired"},
        {"since": "2100-01-01"},
        {"before": ["2000-01-01"] * 2},
    ):
        plan = shard.plan("dead_search", SEARCH | top | asked | {"portion": portion})
        assert not [one for one in unbounded_reads(plan) if "dead_letter" in one]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 200 + 2 * portion / 5, asked
    assert shard.buffers("dead_topics", {"namespace": "n", "topic": None}) < 100


def test_a_purge_goes_on_from_its_mark(shard: Shard) -> None:
    shard.add(MANY, due="-2 minutes")
    row = shard.connection.execute("SELECT due, id FROM delivery ORDER BY id OFFSET 20000").fetchone()
    assert row
    mark = {"topic": 1, "started": None, "priority": 5, "due": row[0], "id": row[1], "limit": 100}
    assert shard.buffers("purge_ids", mark) < 1_000


def test_a_count_of_usage_reads_what_is_new(shard: Shard) -> None:
    shard.connection.execute("SELECT make_partition('message', current_date)")
    for _ in range(20):
        shard.add(5_000)
    for name, full in shard.connection.execute(statement("usage_ranges")).fetchall():
        ranges = {"index": name, "first": 0, "last": full - 1}
        shard.connection.execute(statement("usage_summarize"), ranges)
    row = shard.connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert row
    shard.add(100)
    window = {"txid": row[0], "until": row[0] + 1_000, "at": "now", "whole": True}
    size = "SELECT pg_relation_size('message_' || to_char(current_date, 'YYYYMMDD')) / 8192"
    whole = shard.connection.execute(size).fetchone()
    assert whole
    assert shard.buffers("usage_fold", window) < 128 + 300 < whole[0]


IDS = array(Int8s, range(1, 101))
DUE = array(Timestamps, [datetime(2026, 1, 1, tzinfo=UTC)] * 100)
SETTLE = {
    "position": array(Int4s, range(100)),
    "id": IDS,
    "topic": array(Int4s, [1] * 100),
    "epoch": array(Int4s, [0] * 100),
    "consumer": CLAIM["consumer"],
    "visibility_ms": CLAIM["visibility_ms"],
    "traced": None,
}
BY_ID: dict[str, dict[str, Any]] = {
    "claim": CLAIM,
    "claim_refs": SETTLE | {"most": 1 << 24},
    "ack": SETTLE,
    "release": SETTLE,
    "extend": SETTLE,
    "leased": SETTLE,
    "fail": dict.fromkeys(("kind", "reason", "error", "consumer")) | {"id": IDS, "due": DUE},
    "fill": FILL,
}


def test_keys_are_confirmed_one_by_one(shard: Shard) -> None:
    """Hardly any is unconfirmed at any time; the planner knows that, and must not look for those."""
    make = "INSERT INTO idempotency SELECT 'n', n::text, n, now(), 1, n <= %s FROM generate_series(1, %s) n"
    shard.connection.execute(make, [MANY, MANY + 5])
    shard.connection.execute("ANALYZE idempotency")
    numbers = range(MANY + 6, MANY + 506)
    given = {"namespace": ["n"] * 500, "key": [str(n) for n in numbers], "id": list(numbers)}
    shard.connection.execute(statement("reserve_keys"), given | {"topic": [1] * 500, "window_ms": 86_400_000})
    assert unbounded_reads(shard.plan("confirm_keys", given)) == []
    assert shard.buffers("confirm_keys", given) < 12_000


@pytest.mark.parametrize("name", BY_ID)
def test_what_is_read_is_named(shard: Shard, name: str) -> None:
    shard.add(100_000)
    shard.connection.execute("SET plan_cache_mode = force_generic_plan")
    assert unbounded_reads(shard.plan(name, BY_ID[name])) == []


@pytest.mark.parametrize("name", ["claim_refs", "ack", "release", "extend", "leased"])
def test_what_is_named_is_not_looked_for_among_dead_leases(shard: Shard, fresh_databases: str, name: str) -> None:
    """A snapshot that is held keeps every lease in the index of leases, which the planner takes for empty."""
    shard.add(1_000)
    with psycopg.connect(running().url(f"{fresh_databases}_shard_0")) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1 FROM delivery LIMIT 1")
        ids = shard.add(MANY, state=2)
        shard.connection.execute("DELETE FROM delivery WHERE id = ANY(%s)", [ids])
        shard.connection.execute("ANALYZE delivery")
        for mode in ("force_custom_plan", "force_generic_plan"):
            shard.connection.execute(f"SET plan_cache_mode = {mode}")
            assert "delivery_until" not in json.dumps(shard.plan(name, BY_ID[name]))
            assert shard.buffers(name, BY_ID[name]) < 3_000


async def test_the_planner_hears_of_a_table_that_has_grown(fresh_databases: str) -> None:
    """Long before autovacuum: until then, statements keep the plans that they had for an empty table."""
    engine = Engine(conf_of(fresh_databases, 0))
    await engine.open()
    try:
        flusher = Flusher(engine.cluster.shards[0])
        async with engine.cluster.shards[0].connection() as connection:
            await connection.execute("ALTER TABLE delivery SET (autovacuum_enabled = false)")
            await connection.execute("ANALYZE delivery")
            before = await (await connection.execute(statement("outgrown"))).fetchall()
            await connection.execute(
                "INSERT INTO delivery (id, topic, day, priority, due, state, until) "
                "SELECT -n, -1, current_date, 5, now(), 2, now() + interval '1 hour' FROM generate_series(1, 30000) n"
            )
            grown = await (await connection.execute(statement("outgrown"))).fetchall()
            await flusher.run_once()
            after = await (await connection.execute(statement("outgrown"))).fetchall()
    finally:
        await engine.close()
    assert [("delivery",) in found for found in (before, grown, after)] == [False, True, False]

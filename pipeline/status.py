"""status: where every partition is, and what the lake holds."""

from collections.abc import Callable

from django.db.models import Count, Min, Sum

from mqueue.core.conf import Conf
from pipeline.models import File, Partition, Replay
from shards.retention import connected
from shards.sql import statement

Say = Callable[[str], None]


def status(conf: Conf, say: Say) -> None:
    say(f"lake: {conf.lake.url}")
    for state in Partition.State:
        found = Partition.objects.filter(state=state).aggregate(n=Count("id"), rows=Sum("rows"), first=Min("day"))
        since = f", the first of {found['first']}" if found["first"] else ""
        say(f"{state.value:<10} {found['n']:>6} partitions {found['rows'] or 0:>12} rows{since}")
    files = File.objects.filter(retired_at=None).aggregate(n=Count("id"), rows=Sum("rows"), size=Sum("bytes"))
    retired = File.objects.exclude(retired_at=None).count()
    say(f"files      {files['n']:>6}, {files['rows'] or 0} rows, {files['size'] or 0} bytes; {retired} retired")
    for run in Replay.objects.filter(state=Replay.State.RUNNING):
        say(f"replay     {run.name}: {run.sent} sent, last touched {run.touched_at:%Y-%m-%d %H:%M} UTC")
    for shard, url in enumerate(conf.shard_urls):
        with connected(url) as connection:
            row = connection.execute(statement("horizon")).fetchone()
        assert row
        say(f"shard {shard}    the log is complete up to txid {row[0]}, held back for {row[1]:.1f} s")

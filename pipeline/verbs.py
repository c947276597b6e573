"""The verbs of `manage.py pipeline`. What a verb needs is loaded when it runs: pyspark takes its time."""

import argparse
import datetime
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from mqueue.core.conf import Conf
from pipeline.errors import PipelineError
from pipeline.times import moment

Say = Callable[[str], None]
Run = Callable[[Conf, dict[str, Any], Say], None]


# Of a run whose Spark only spreads tasks: compiling its plans costs more than it gives.
PLAIN = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    """A verb without Spark."""


def spark_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", default="local[2]", help="Spark's master (default: local[2], in this process)")
    parser.add_argument("--remote", help="a Spark Connect server instead, such as sc://host:15002")


@dataclass(frozen=True, slots=True)
class Verb:
    about: str
    run: Run
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments


def _archive(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.archive import archive
    from pipeline.spark import Sessions

    with Sessions("mqueue archive", options["master"], options["remote"], PLAIN) as sessions:
        archive(conf, sessions, say)


def _verify(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.spark import Sessions
    from pipeline.verify import verify

    with Sessions("mqueue verify", options["master"], options["remote"], PLAIN) as sessions:
        verify(conf, sessions, say)


def _gc(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.gc import gc

    gc(conf, say)


def _retain(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.retain import retain

    retain(conf, say)


def _status(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.status import status

    status(conf, say)


def _compact(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.compact import compact
    from pipeline.spark import Sessions

    with Sessions("mqueue compact", options["master"], options["remote"], PLAIN) as sessions:
        compact(conf, sessions, say)


def erase_arguments(parser: argparse.ArgumentParser) -> None:
    spark_arguments(parser)
    parser.add_argument("--namespace", required=True, help="whose rows")
    parser.add_argument("--yes", action="store_true", help="do it; without, it is only shown what would be done")
    parser.add_argument(
        "--now", action="store_true", help="delete the old files at once, and not after LAKE_GRACE_HOURS by `gc`"
    )


def _erase(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.erase import erase
    from pipeline.spark import Sessions

    with Sessions("mqueue erase", options["master"], options["remote"]) as sessions:
        erase(conf, sessions, options["namespace"], say, sure=options["yes"], at_once=options["now"])


def replay_arguments(parser: argparse.ArgumentParser) -> None:
    spark_arguments(parser)
    parser.add_argument("--namespace", help="whose messages")
    parser.add_argument("--topic", help="of this topic alone")
    parser.add_argument("--from", dest="first", type=moment, help="enqueued at this time or later (UTC unless it says)")
    parser.add_argument("--to", dest="last", type=moment, help="and before this one (default: now)")
    parser.add_argument("--as-of", type=moment, help="as if it were that time: what came later does not count")
    parser.add_argument("--include-deleted", action="store_true", help="those too that were cancelled or deleted")
    parser.add_argument("--into", metavar="TOPIC", help="into this topic instead of their own")
    parser.add_argument("--where", metavar="SQL", help="those alone, such as \"priority < 3 AND body LIKE '%%vip%%'\"")
    parser.add_argument("--rate", type=float, help="messages a second at most")
    parser.add_argument("--max", dest="most", type=int, help="messages at most")
    parser.add_argument("--most-replays", type=int, default=3, help="skip what was replayed so often (default: 3)")
    parser.add_argument("--dry-run", action="store_true", help="show how many there are by the hour, and send nothing")
    parser.add_argument(
        "--resume", metavar="RUN",
        help="go on with a run that was stopped; the rest is as it was asked, but for --url; --rate may be another",
    )  # fmt: skip
    parser.add_argument("--url", help="the service (default: this installation's API)")


def _replay(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline import replay as replays
    from pipeline.door import Door
    from pipeline.spark import Sessions

    if options["resume"]:
        run = replays.resume(conf, options["resume"])
    elif options["namespace"] and options["first"]:
        given = {name: options[name] for name in replays.Wish.__slots__ if name != "last"}
        run = replays.begin(conf, replays.Wish(**given, last=options["last"] or datetime.datetime.now(datetime.UTC)))
    else:
        raise PipelineError("replay needs --namespace and --from, or --resume")
    settings = {} if run.wish["where"] else PLAIN
    with Sessions("mqueue replay", options["master"], options["remote"], settings, keeps_java=False) as sessions:
        if options["dry_run"]:
            replays.dry_run(conf, sessions, run, say, is_resumed=bool(options["resume"]))
            return
        door = Door(options["url"] or conf.api.origin, conf.jwt_secret, run.wish["namespace"], f"replay-{run.name}")
        with closing(door):
            rate = options["rate"] or run.wish.get("rate")
            replays.replay(conf, sessions, run, say, door, rate, is_resumed=bool(options["resume"]))


def usage_arguments(parser: argparse.ArgumentParser) -> None:
    spark_arguments(parser)
    parser.add_argument("--all", action="store_true", help="every day there is, and not only what has changed")


def _usage(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.spark import Sessions
    from pipeline.usage import usage

    with Sessions("mqueue usage", options["master"], options["remote"]) as sessions:
        usage(conf, sessions, say, everything=options["all"])


def _failures(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.failures import failures
    from pipeline.spark import Sessions

    with Sessions("mqueue failures", options["master"], options["remote"]) as sessions:
        failures(conf, sessions, say)


def stream_arguments(parser: argparse.ArgumentParser) -> None:
    spark_arguments(parser)
    parser.add_argument("--namespace", required=True, help="whose topics")
    parser.add_argument("--topic", required=True, help="where the leads come from")
    parser.add_argument("--into", required=True, metavar="TOPIC", help="where they go, enriched")
    parser.add_argument("--checkpoint", required=True, metavar="URI", help="where Spark keeps how far it has come")
    parser.add_argument(
        "--starting", default="earliest", help="where the first run begins: earliest, latest, or a txid for each shard"
    )
    parser.add_argument("--max-rows", type=int, default=10_000, help="leads of one batch at most (default: 10000)")
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds between batches (default: 1)")
    parser.add_argument("--once", action="store_true", help="what is there now, and then end")
    parser.add_argument("--url", help="the service (default: this installation's API)")


def _stream(conf: Conf, options: dict[str, Any], say: Say) -> None:
    from pipeline.spark import Sessions
    from pipeline.stream import Flow, stream

    flow = Flow(**{name: options[name] for name in Flow.__slots__})
    with Sessions("mqueue stream", options["master"], options["remote"]) as sessions:
        stream(conf, sessions, flow, say)


VERBS: dict[str, Verb] = {
    "archive": Verb("Copy the days that are over into the lake, checked row by row.", _archive, spark_arguments),
    "verify": Verb("Read the whole lake again and hold it against its list.", _verify, spark_arguments),
    "gc": Verb("Delete files that no run will ever publish, and those that were replaced.", _gc),
    "retain": Verb("Drop days from the shards that are in the lake and past their retention.", _retain),
    "compact": Verb("Merge each day's files into fewer ones, each of a range of topics.", _compact, spark_arguments),
    "erase": Verb("Take a namespace's rows out of the lake and the roll-ups, for good.", _erase, erase_arguments),
    "replay": Verb(
        "Send messages of the past again, in their old order, through the service.", _replay, replay_arguments
    ),
    "usage": Verb("Count messages, bytes and steps by topic and hour, and time them.", _usage, usage_arguments),
    "failures": Verb("Group what died by its error, and say what may be done.", _failures, spark_arguments),
    "stream": Verb("Enrich the leads of a topic into another one, as they come.", _stream, stream_arguments),
    "status": Verb("Show where every day is, and what the lake holds.", _status),
}

"""python -m launch run | restart | only | probe | psql | reset"""

import argparse
import asyncio
import os
import sys

from launch import embedded, probes, services
from launch.renewal import restart
from launch.run import AlreadyRunning, only_one, run
from mqueue.core.conf import ConfError, conf


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m launch", description="Start mqueue, or look into its databases.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("run", help="start everything and keep it running (make run)")
    verbs.add_parser("restart", help="renew every process of what runs, one after another, and fail no request")
    only = verbs.add_parser("only", help="become one of our processes, under a supervisor of yours (Docker, systemd)")
    only.add_argument("name", choices=["api", "daemons", "celery", "metrics"])
    verbs.add_parser("probe", help="exit 0 when the API answers that it is ready (for a health check)")
    psql = verbs.add_parser("psql", help="open psql on a shard or the control database (make psql SHARD=0)")
    psql.add_argument("database", help="a shard's number, or `control`")
    psql.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to psql")
    reset = verbs.add_parser("reset", help="delete the embedded servers' data (make reset)")
    reset.add_argument("--yes", action="store_true", help="really")
    chosen = parser.parse_args()
    try:
        if chosen.verb == "run":
            return run()
        if chosen.verb in ("restart", "only"):
            return renew() if chosen.verb == "restart" else become(chosen.name)
        if chosen.verb == "probe":
            return 0 if asyncio.run(probes.http(f"{conf().api.origin}/ready")) else 1
        if chosen.verb == "psql":
            return open_psql(chosen.database, chosen.arguments)
        return forget_everything(chosen.yes)
    except ConfError as error:
        return fail(f"the configuration cannot be used: {error}")


def renew() -> int:
    trouble = restart(conf().data)
    return fail(trouble) if trouble else 0


def become(name: str) -> int:
    conf().data.mkdir(parents=True, exist_ok=True)
    try:
        if address := services.ports(conf()).get(name):
            probes.require_free_port(*address)  # or the server would say it in a traceback
    except probes.PortTaken as error:
        return fail(str(error))
    service = next(service for service in services.workers(conf()) if service.name == name)
    os.execve(service.command[0], service.command, service.env)


def open_psql(database: str, arguments: list[str]) -> int:
    shards = conf().shard_urls
    if database == "control":
        url = conf().control_url
    elif database.isdigit() and int(database) < len(shards):
        url = shards[int(database)]
    else:
        return fail(f"there is no shard {database!r}: name 0 to {len(shards) - 1}, or control")
    program = str(embedded.psql_program())
    os.execv(program, [program, url, *arguments])


def forget_everything(sure: bool) -> int:
    data, state = conf().data, conf().embedded.state
    if not sure:
        return fail(
            f"this deletes every message of the embedded servers ({data}, {state}); confirm with: make reset YES=1"
        )
    try:
        with only_one(data):
            embedded.forget(conf().embedded, data)
    except AlreadyRunning as error:
        return fail(str(error))
    print(f"deleted {data}" + (f" and {state}" if not state.is_relative_to(data) else ""))
    return 0


def fail(text: str) -> int:
    print(f"mqueue: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

import argparse
import signal
import sys
from typing import Any

from django.core.management.base import BaseCommand

from mqueue.core.conf import conf
from mqueue.core.linux import give_way, step_apart
from pipeline.errors import PipelineError
from pipeline.verbs import VERBS

INSTALLED_BY_ITSELF = ("pyspark", "py4j", "pyarrow", "adbc_driver_postgresql", "numpy")


class Command(BaseCommand):
    help = (
        "History on Spark. Exit codes: 0 done, 1 it cannot go on, 3 nothing to do, 4 another run is at it, "
        "5 a copy is not what its origin is."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for name, verb in VERBS.items():
            one = verbs.add_parser(name, help=verb.about, description=verb.about)
            verb.add_arguments(one)

    def run_from_argv(self, argv: list[str]) -> None:
        """From the command line it is a process of its own: it and all that it starts step aside for live traffic. A
        replay is traffic itself."""
        if "replay" in argv:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and nothing is left lying
        else:
            give_way()
            step_apart()
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            require_lake()
            VERBS[options["verb"]].run(conf(), options, self.say)
        except ModuleNotFoundError as missing:
            if (missing.name or "").split(".")[0] not in INSTALLED_BY_ITSELF:
                raise
            self.say(f"{missing.name} is not installed: python launch/install.py pipeline")
            sys.exit(PipelineError.exit_code)
        except PipelineError as ended:
            self.say(str(ended) or str(ended.__doc__))
            sys.exit(ended.exit_code)

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def require_lake() -> None:
    if not conf().lake.is_on:
        raise PipelineError("There is no lake: set LAKE_URL to a folder, or to a URI such as s3://bucket/lake")

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from mqueue.core import tokens
from mqueue.core.conf import conf


class Command(BaseCommand):
    help = "Print a token signed by the root key (JWT_SECRET)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--namespace", action="append", help="may be given several times; * is all (default: default)"
        )
        parser.add_argument(
            "--scope", action="append", help="enqueue, dequeue, dlq, admin, ns:scope or * (default: *); may be repeated"
        )
        parser.add_argument("--subject", default="operator", help="who uses it; shown in traces (default: operator)")
        parser.add_argument("--days", type=float, default=1, help="how long it holds (default: 1)")

    def handle(self, *args: Any, **options: Any) -> None:
        namespaces, scopes = options["namespace"] or ["default"], options["scope"] or ["*"]
        lifetime_s = int(options["days"] * 86_400)
        self.stdout.write(tokens.make(conf().jwt_secret, options["subject"], namespaces, scopes, lifetime_s))

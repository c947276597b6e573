import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mqueue.core import tokens
from mqueue.core.conf import conf
from mqueue.core.credentials import HS256
from mqueue.core.sealing import Unsealable


class Command(BaseCommand):
    help = "Print a token signed by the root key (JWT_SECRET), or by a namespace's own key."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--namespace",
            action="append",
            help="may be given several times; * is all (default: default, or that of the key)",
        )
        parser.add_argument(
            "--scope", action="append", help="enqueue, dequeue, dlq, admin, ns:scope or * (default: *); may be repeated"
        )
        parser.add_argument("--subject", default="operator", help="who uses it; shown in traces (default: operator)")
        parser.add_argument("--days", type=float, default=1, help="how long it holds (default: 1)")
        parser.add_argument("--key", metavar="KID", help="sign with this HS256 key of a namespace's own")

    def handle(self, *args: Any, **options: Any) -> None:
        kid = options["key"] or ""
        secret, home = self._key(kid) if kid else (conf().jwt_secret, "default")
        namespaces, scopes = options["namespace"] or [home], options["scope"] or ["*"]
        lifetime_s = int(options["days"] * 86_400)
        self.stdout.write(tokens.make(secret, options["subject"], namespaces, scopes, lifetime_s, kid=kid))

    def _key(self, kid: str) -> tuple[bytes, str]:
        from tenants.keyring import signing_secret  # the root key's tokens need no database
        from tenants.models import Key

        key = Key.objects.filter(kid=kid, kind=HS256, revoked_at=None).select_related("namespace").first()
        if key is None:
            raise CommandError(f"There is no live HS256 key {kid}: of others, the signing half is not ours")
        try:
            return signing_secret(key), key.namespace.name
        except Unsealable as error:
            raise CommandError(f"{error}: JWT_SECRET has changed since this key was made") from error

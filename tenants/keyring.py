"""Making and revoking the keys of a namespace's own."""

from datetime import UTC, datetime
from typing import Any

from mqueue.core import credentials, public_keys, sealing
from mqueue.core.conf import conf
from mqueue.core.credentials import API_KEY, HS256
from mqueue.core.errors import Conflict, Invalid
from tenants.askers import Asker
from tenants.models import Key, Namespace
from tenants.rules import OWNER

MOST_LIVE = 100  # every process knows each of them
DEFAULT_SCOPES = {API_KEY: ["enqueue", "dequeue", "dlq"]}
SIGNING_SCOPES = ["enqueue", "dequeue", "dlq", "admin"]


def make_key(
    asker: Asker,
    home: Namespace,
    *,
    kind: str,
    name: str = "",
    scopes: list[str] | None = None,
    public_key: str | dict[str, Any] | None = None,
    expires_at: datetime | None = None,
) -> tuple[Key, str]:
    """The record, and the secret that is shown this once; a public key has none."""
    scopes = scopes or DEFAULT_SCOPES.get(kind, SIGNING_SCOPES)
    if "*" in scopes:
        asker.require(home.name, OWNER)  # nobody grants more than he has
    if expires_at and expires_at <= datetime.now(UTC):
        raise invalid("expires_at", "lies in the past")
    if home.keys.filter(revoked_at=None).count() >= MOST_LIVE:
        raise Conflict(f"A namespace has at most {MOST_LIVE} live keys: revoke one first")
    kid = credentials.new_kid()
    material, secret = _material(kind, kid, public_key)
    made = Key.objects.create(
        kid=kid,
        namespace=home,
        name=name,
        kind=kind,
        scopes=sorted(set(scopes)),
        material=material,
        created_by=asker.name,
        expires_at=expires_at,
    )
    return made, secret


def revoke_key(key: Key) -> bool:
    """False where it was revoked before. Every process hears of it within a second."""
    if key.revoked_at:
        return False
    key.revoked_at = datetime.now(UTC)
    key.save(update_fields=["revoked_at"])
    return True


def signing_secret(key: Key) -> bytes:
    """That of an HS256 key, for `manage.py token`."""
    return sealing.unseal(conf().jwt_secret, key.kid, bytes(key.material))


def invalid(field: str, detail: str) -> Invalid:
    return Invalid(f"{field}: {detail}", errors=[{"index": None, "field": field, "detail": detail}])


def _material(kind: str, kid: str, public_key: str | dict[str, Any] | None) -> tuple[bytes, str]:
    if kind in credentials.PUBLIC:
        if not public_key:
            raise invalid("public_key", f"is needed for {kind}: PEM, or a JWK")
        try:
            return public_keys.read(kind, public_key), ""
        except ValueError as error:
            raise invalid("public_key", str(error)) from error
    if public_key:
        raise invalid("public_key", f"has no use for {kind}")
    secret = credentials.new_secret()
    if kind == HS256:
        return sealing.seal(conf().jwt_secret, kid, secret.encode()), secret
    return credentials.hash_of(secret), credentials.write_api_key(kid, secret)

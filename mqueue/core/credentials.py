"""The keys of a namespace's own: what a process knows of one, and how an API key is written."""

import hashlib
import logging
import re
import secrets
from dataclasses import dataclass, field
from typing import Protocol

from mqueue.core import public_keys, sealing
from mqueue.core.public_keys import PublicKey

log = logging.getLogger(__name__)
API_KEY, HS256 = "api_key", "HS256"
PUBLIC = ("RS256", "ES256", "EdDSA")
KINDS = (API_KEY, HS256, *PUBLIC)
SCOPES = ("enqueue", "dequeue", "dlq", "admin", "*")
PREFIX = "mq_"
KID = "[0-9a-f]{16}"
_kid = re.compile(KID)
_api_key = re.compile(rf"{PREFIX}({KID})_([A-Za-z0-9_-]{{43}})")


@dataclass(eq=False, slots=True)
class Key:
    """One version of a record: a change makes another object, so that what was verified with this one is forgotten."""

    kid: str
    namespace: str
    kind: str
    name: str
    scopes: frozenset[str]  # what it may grant at most
    expires_at: float  # seconds since the epoch
    material: bytes = field(repr=False)  # a public key's PEM, a sealed secret, or the hash of an API key's
    was_used: bool = False  # since that was last written down
    _opened: PublicKey | bytes | None = field(default=None, repr=False)

    def verifying(self, root: str) -> PublicKey | bytes | None:
        """What a signature is verified with; opened when it is first needed. None where that cannot be done."""
        if self._opened is None:
            try:
                self._opened = self._open(root)
            except sealing.Unsealable as error:
                log.warning("%s", error)
                self._opened = b""
        return self._opened or None

    def is_of(self, secret: str) -> bool:
        """Of an API key: whether this is its secret."""
        return self.kind == API_KEY and secrets.compare_digest(self.material, hash_of(secret))

    def _open(self, root: str) -> PublicKey | bytes:
        if self.kind == HS256:
            return sealing.unseal(root, self.kid, self.material)
        assert self.kind in PUBLIC
        return public_keys.load(self.material)


class Keys(Protocol):
    """Where a verifier finds them."""

    def key(self, kid: str) -> Key | None:
        """Live, in force right now."""


class NoKeys:
    def key(self, kid: str) -> Key | None:
        return None


def new_kid() -> str:
    return secrets.token_hex(8)


def is_kid(text: str) -> bool:
    return _kid.fullmatch(text) is not None


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def write_api_key(kid: str, secret: str) -> str:
    return f"{PREFIX}{kid}_{secret}"


def shown(kid: str) -> str:
    """The part of an API key that may be shown: enough to tell which it is."""
    return f"{PREFIX}{kid}_"


def read_api_key(text: str) -> tuple[str, str] | None:
    """Its kid and secret."""
    found = _api_key.fullmatch(text)
    return (found[1], found[2]) if found else None


def hash_of(secret: str) -> bytes:
    """A fast one is enough: the secret has 256 random bits, and nobody guesses those."""
    return hashlib.sha256(secret.encode()).digest()

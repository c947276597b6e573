"""Secrets at rest: sealed with a key that is derived from the root key, so that a dump of the database is of no use."""

import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class Unsealable(Exception):
    """It was sealed under another root key, or for another name."""


def seal(root: str, name: str, secret: bytes) -> bytes:
    """Only `unseal` with the same root key and name opens it: it cannot be moved to another record either."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + _cipher(root).encrypt(nonce, secret, name.encode())


def unseal(root: str, name: str, sealed: bytes) -> bytes:
    try:
        return _cipher(root).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name.encode())
    except (InvalidTag, ValueError) as error:
        raise Unsealable(f"The secret of {name} was sealed under another root key") from error


def _cipher(root: str) -> AESGCM:
    return AESGCM(hmac.new(root.encode(), b"mqueue sealed secrets", hashlib.sha256).digest())

"""Tokens and API keys: those of the root key, and those of a namespace's own keys. Verified on every request."""

import time
from collections.abc import Callable
from typing import Any

import jwt

from mqueue.core import credentials, jwts
from mqueue.core.credentials import API_KEY, Key, Keys, NoKeys
from mqueue.core.errors import Unauthenticated, UnknownKey
from mqueue.core.principals import ANY, Principal

__all__ = ["Principal", "Verifier", "make"]
ALGORITHM = "HS256"
FAR = 253_402_300_799.0  # the end of the year 9999


def make(
    secret: str | bytes, subject: str, namespaces: list[str], scopes: list[str], lifetime_s: int, *, kid: str = ""
) -> str:
    claims = {
        "sub": subject,
        "exp": int(time.time()) + lifetime_s,
        "allowed_namespaces": namespaces,
        "scopes": scopes,
    }
    return jwt.encode(claims, secret, algorithm=ALGORITHM, headers={"kid": kid} if kid else None)


class Verifier:
    """Remembers what it verified, until that expires or its key changes: who is known costs two look-ups."""

    REMEMBERED = 10_000

    def __init__(self, secret: str, keys: Keys | None = None) -> None:
        self._secret = secret
        self._keys = keys or NoKeys()
        self._tokens: dict[str, _Seen] = {}
        self._api_keys: dict[str, _Seen] = {}

    def verify(self, token: str) -> Principal:
        return self._known(self._tokens, token) or self._remember(self._tokens, token, self._read)

    def verify_api_key(self, text: str) -> Principal:
        return self._known(self._api_keys, text) or self._remember(self._api_keys, text, self._read_api_key)

    def _known(self, memory: "dict[str, _Seen]", credential: str) -> Principal | None:
        seen = memory.get(credential)
        if seen is None:
            return None
        principal, key = seen
        if key is not None:
            if self._keys.key(key.kid) is not key:  # revoked, or changed
                memory.pop(credential, None)
                return None
            key.was_used = True
        return _require_live(principal)

    def _remember(self, memory: "dict[str, _Seen]", credential: str, read: "Callable[[str], _Seen]") -> Principal:
        principal, key = read(credential)
        if key is not None:
            key.was_used = True
        if len(memory) >= self.REMEMBERED:
            memory.clear()
        memory[credential] = principal, key
        return _require_live(principal)

    def _read(self, token: str) -> "_Seen":
        kid = jwts.kid_of(token)
        if kid is None:
            return _of_root(jwts.verified(token, self._secret, ALGORITHM)), None
        key = self._key(kid)
        material = None if key.kind == API_KEY else key.verifying(self._secret)
        if material is None:
            raise Unauthenticated("The token does not hold")
        return _of_key(jwts.verified(token, material, key.kind), key), key

    def _read_api_key(self, text: str) -> "_Seen":
        kid, secret = credentials.read_api_key(text) or ("", "")
        if not kid:
            raise Unauthenticated("The API key does not hold")
        key = self._key(kid)
        if not key.is_of(secret):
            raise Unauthenticated("The API key does not hold")
        scopes = frozenset(f"{key.namespace}:{scope}" for scope in key.scopes)
        return Principal(key.name or key.kid, frozenset((key.namespace,)), scopes, key.expires_at, key.kid), key

    def _key(self, kid: str) -> Key:
        if not credentials.is_kid(kid):
            raise Unauthenticated("There is no key with this kid")
        key = self._keys.key(kid)
        if key is None:
            raise UnknownKey(kid)
        return key


_Seen = tuple[Principal, Key | None]


def _require_live(principal: Principal) -> Principal:
    if principal.expires_at + jwts.LEEWAY_S <= time.time():
        raise Unauthenticated("The token has expired")
    return principal


def _of_root(claims: jwts.Claims) -> Principal:
    namespaces, scopes = _names(claims, "allowed_namespaces", ["default"]), _names(claims, "scopes", [ANY])
    return Principal(claims["sub"], namespaces, scopes, _expiry(claims))


def _of_key(claims: jwts.Claims, key: Key) -> Principal:
    """Whatever it claims, it stays in its namespace, and within what its key may grant."""
    own = key.namespace
    reaches = _names(claims, "allowed_namespaces", [own]) & {ANY, own}
    claimed = {_local(scope, own) for scope in _names(claims, "scopes", [ANY])} - {None}
    granted = claimed if ANY in key.scopes else set(key.scopes) if ANY in claimed else claimed & key.scopes
    scopes = frozenset(f"{own}:{scope}" for scope in granted)
    expires_at = min(_expiry(claims), key.expires_at)
    return Principal(claims["sub"], frozenset((own,)) if reaches else frozenset(), scopes, expires_at, key.kid)


def _local(scope: str, namespace: str) -> str | None:
    """What a scope says of this namespace."""
    place, colon, rest = scope.rpartition(":")
    if not colon:
        return scope
    return rest if place == namespace else None


def _expiry(claims: jwts.Claims) -> float:
    return float(min(claims["exp"], FAR))


def _names(claims: dict[str, Any], claim: str, default: list[str]) -> frozenset[str]:
    names = claims.get(claim, default)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unauthenticated(f"The claim {claim} has to be a list of strings")
    return frozenset(names)

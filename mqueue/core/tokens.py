"""Tokens of the root key: made by `manage.py token`, verified on every request."""

import time
from dataclasses import dataclass
from typing import Any

import jwt

from mqueue.core.errors import Forbidden, Unauthenticated

ALGORITHM = "HS256"
LONGEST = 8 * 1024
LEEWAY_S = 0
FAR = 253_402_300_799  # the end of the year 9999
ANY = "*"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, and what he may."""

    subject: str
    namespaces: frozenset[str]
    scopes: frozenset[str]
    expires_at: float

    def require(self, namespace: str, scope: str) -> None:
        """The same answer whether or not the namespace exists."""
        if ANY not in self.namespaces and namespace not in self.namespaces:
            raise Forbidden("The token does not carry this namespace")
        if not self.scopes & {ANY, scope, f"{namespace}:{scope}", f"{namespace}:{ANY}"}:
            raise Forbidden(f"The token does not carry the scope {scope}")

    def require_admin(self) -> None:
        """For what shows every namespace. `*` alone is not enough: a tenant's token may carry it for its own."""
        if "admin" not in self.scopes and not (ANY in self.scopes and ANY in self.namespaces):
            raise Forbidden("The token does not carry the scope admin")

    def require_any(self, namespace: str) -> None:
        """Whoever may do anything in a namespace may look at its messages."""
        if ANY not in self.namespaces and namespace not in self.namespaces:
            raise Forbidden("The token does not carry this namespace")
        if not any(":" not in scope or scope.startswith(f"{namespace}:") for scope in self.scopes):
            raise Forbidden("The token carries no scope for this namespace")


def make(secret: str, subject: str, namespaces: list[str], scopes: list[str], lifetime_s: int) -> str:
    claims = {
        "sub": subject,
        "exp": int(time.time()) + lifetime_s,
        "allowed_namespaces": namespaces,
        "scopes": scopes,
    }
    return jwt.encode(claims, secret, algorithm=ALGORITHM)


class Verifier:
    """Remembers what it verified, until that expires: a known token costs one look-up."""

    REMEMBERED = 10_000

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._known: dict[str, Principal] = {}

    def verify(self, token: str) -> Principal:
        principal = self._known.get(token)
        if principal is None:
            principal = self._read(token)
            if len(self._known) >= self.REMEMBERED:
                self._known.clear()
            self._known[token] = principal
        if principal.expires_at + LEEWAY_S <= time.time():
            raise Unauthenticated("The token has expired")
        return principal

    def _read(self, token: str) -> Principal:
        if len(token) > LONGEST:
            raise Unauthenticated("The token is too long")
        try:
            if "kid" in jwt.get_unverified_header(token):
                raise Unauthenticated("There is no key with this kid")
            required = {"require": ["sub", "exp"]}
            claims = jwt.decode(token, self._secret, algorithms=[ALGORITHM], options=required, leeway=LEEWAY_S)  # type: ignore[arg-type]
        except jwt.ExpiredSignatureError as error:
            raise Unauthenticated("The token has expired") from error
        except (jwt.InvalidTokenError, ValueError, OverflowError) as error:
            raise Unauthenticated("The token does not hold") from error
        if not claims["sub"] or not claims["sub"].isprintable():
            raise Unauthenticated("The claim sub has to be text that can be shown")
        if not isinstance(claims["exp"], (int, float)) or isinstance(claims["exp"], bool):
            raise Unauthenticated("The claim exp has to be a number")
        return Principal(
            subject=claims["sub"],
            namespaces=_names(claims, "allowed_namespaces", ["default"]),
            scopes=_names(claims, "scopes", [ANY]),
            expires_at=min(float(min(claims["exp"], FAR)), FAR),
        )


def _names(claims: dict[str, Any], claim: str, default: list[str]) -> frozenset[str]:
    names = claims.get(claim, default)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unauthenticated(f"The claim {claim} has to be a list of strings")
    return frozenset(names)

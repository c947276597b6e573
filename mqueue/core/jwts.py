"""Reading a JWT strictly: one spelling of each token, no claim twice, and one algorithm, that of the key on record."""

import base64
import json
import re
from typing import Any

import jwt

from mqueue.core.errors import Unauthenticated
from mqueue.core.public_keys import PublicKey

LONGEST = 8 * 1024
LEEWAY_S = 0
Claims = dict[str, Any]
_shape = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def kid_of(token: str) -> str | None:
    """The key that the token says it was signed with. Nothing of it is verified yet."""
    if len(token) > LONGEST:
        raise Unauthenticated("The token is too long")
    if not _shape.fullmatch(token):
        raise Unauthenticated("The token does not hold")
    header = _part(token, 0)
    if "crit" in header or "b64" in header:
        raise Unauthenticated("The token's header asks for what is not understood")
    kid = header.get("kid")
    if "kid" in header and not isinstance(kid, str):
        raise Unauthenticated("The token's kid has to be text")
    return kid


def verified(token: str, key: PublicKey | str | bytes, algorithm: str) -> Claims:
    """Its claims, if the signature holds, and the token right now."""
    options: Any = {"require": ["sub", "exp"]}
    try:
        jwt.decode(token, key, algorithms=[algorithm], options=options, leeway=LEEWAY_S)
    except jwt.ExpiredSignatureError as error:
        raise Unauthenticated("The token has expired") from error
    except jwt.ImmatureSignatureError as error:
        raise Unauthenticated("The token does not hold yet") from error
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Unauthenticated("The token does not hold") from error
    return _checked(_part(token, 1))


def _part(token: str, number: int) -> Claims:
    part = token.split(".")[number]
    try:
        text = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        found = json.loads(text, object_pairs_hook=_each_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unauthenticated("The token does not hold") from error
    if not isinstance(found, dict):
        raise Unauthenticated("The token does not hold")
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> Claims:
    """Of two claims of one name, one reader takes the first and another the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a claim stands there twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _checked(claims: Claims) -> Claims:
    subject, expires_at = claims.get("sub"), claims.get("exp")
    if not isinstance(subject, str) or not subject or not subject.isprintable():
        raise Unauthenticated("The claim sub has to be text that can be shown")
    if not isinstance(expires_at, (int, float)) or isinstance(expires_at, bool):
        raise Unauthenticated("The claim exp has to be a number")
    return claims

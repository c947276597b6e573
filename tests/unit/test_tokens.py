"""Tokens of the root key."""

import base64
import json
import time
from typing import Any

import jwt
import pytest

from mqueue.api.plane import Plane
from mqueue.core import tokens
from mqueue.core.conf import Conf
from mqueue.core.errors import Forbidden, Unauthenticated
from mqueue.core.tokens import Verifier

SECRET = "k" * 64


def signed(secret: str = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    return jwt.encode({"sub": "me", "exp": time.time() + 60} | claims, secret, algorithm=algorithm, headers=headers)


def test_a_token_of_ours_holds() -> None:
    principal = Verifier(SECRET).verify(tokens.make(SECRET, "me", ["a"], ["enqueue"], 60))
    assert (principal.subject, principal.namespaces, principal.scopes) == ("me", {"a"}, {"enqueue"})


def test_absent_claims_mean_the_default_namespace_and_every_scope() -> None:
    principal = Verifier(SECRET).verify(signed())
    assert (principal.namespaces, principal.scopes) == ({"default"}, {"*"})


def encoded(part: str | bytes) -> str:
    return base64.urlsafe_b64encode(part if isinstance(part, bytes) else part.encode()).decode().rstrip("=")


def written(header: str | bytes, payload: str | bytes, secret: str = SECRET) -> str:
    """Signed well, whatever it says."""
    signed_part = f"{encoded(header)}.{encoded(payload)}"
    signature = jwt.get_algorithm_by_name("HS256").sign(signed_part.encode(), secret.encode())
    return f"{signed_part}.{encoded(signature)}"


HEADER = '{"alg": "HS256", "typ": "JWT"}'
LATER = int(time.time()) + 86_400  # a run of all tests takes its time
CLAIMS = f'{{"sub": "me", "exp": {LATER}}}'


def test_what_the_tests_write_by_hand_holds() -> None:
    assert Verifier(SECRET).verify(written(HEADER, CLAIMS)).subject == "me"


BROKEN = {
    "empty": lambda: "",
    "no token at all": lambda: "x",
    "three parts of nothing": lambda: "a.b.c",
    "far too long": lambda: "A" * 10_000,
    "another key": lambda: signed("z" * 64),
    "another algorithm": lambda: signed(algorithm="HS512"),
    "algorithm none": lambda: jwt.encode({"sub": "me", "exp": time.time() + 60}, None, algorithm="none"),
    "without exp": lambda: jwt.encode({"sub": "me"}, SECRET),
    "without sub": lambda: jwt.encode({"exp": time.time() + 60}, SECRET),
    "expired": lambda: signed(exp=time.time() - 60),
    "expired just now": lambda: signed(exp=int(time.time()) - 1),
    "an exp that is text": lambda: signed(exp=str(int(time.time()) + 60)),
    "an empty sub": lambda: signed(sub=""),
    "sub is a number": lambda: signed(sub=7),
    "namespaces are no list": lambda: signed(allowed_namespaces="a"),
    "scopes are no strings": lambda: signed(scopes=[1]),
    "sub holds NUL": lambda: signed(sub="a\0b"),
    "sub holds half a character": lambda: signed(sub="a\ud800"),
    "unknown kid": lambda: signed(headers={"kid": "unknown"}),
    "an empty kid": lambda: written('{"alg": "HS256", "kid": ""}', CLAIMS),
    "a kid that is no text": lambda: written('{"alg": "HS256", "kid": 7}', CLAIMS),
    "a kid that is null": lambda: written('{"alg": "HS256", "kid": null}', CLAIMS),
    "not before later": lambda: signed(nbf=int(time.time()) + 60),
    "issued later": lambda: signed(iat=int(time.time()) + 60),
    "for another audience": lambda: signed(aud="elsewhere"),
    "exp is true": lambda: signed(exp=True),
    "exp is null": lambda: written(HEADER, '{"sub": "me", "exp": null}'),
    "exp is a list": lambda: written(HEADER, f'{{"sub": "me", "exp": [{LATER}]}}'),
    "exp is NaN": lambda: written(HEADER, '{"sub": "me", "exp": NaN}'),
    "exp is Infinity": lambda: written(HEADER, '{"sub": "me", "exp": Infinity}'),
    "exp twice": lambda: written(HEADER, f'{{"sub": "me", "exp": 1, "exp": {LATER}}}'),
    "namespaces twice": lambda: written(
        HEADER, CLAIMS[:-1] + ', "allowed_namespaces": ["a"], "allowed_namespaces": ["*"]}'
    ),
    "a claim inside another twice": lambda: written(HEADER, CLAIMS[:-1] + ', "more": {"a": 1, "a": 2}}'),
    "alg twice": lambda: written('{"alg": "none", "alg": "HS256"}', CLAIMS),
    "alg in lower case": lambda: written('{"alg": "hs256"}', CLAIMS),
    "alg is a list": lambda: written('{"alg": ["HS256"]}', CLAIMS),
    "no alg": lambda: written("{}", CLAIMS),
    "a header that is no object": lambda: written("[]", CLAIMS),
    "claims that are no object": lambda: written(HEADER, json.dumps(["sub", "exp"])),
    "claims that are no JSON": lambda: written(HEADER, "sub"),
    "claims that are no text": lambda: written(HEADER, b"\xff\xfe"),
    "something critical": lambda: written('{"alg": "HS256", "crit": ["b64"], "b64": false}', CLAIMS),
    "a header nested deeply": lambda: written('{"alg": "HS256", "a":' + "[" * 5000 + "}", CLAIMS),
    "claims nested deeply": lambda: written(HEADER, CLAIMS[:-1] + ', "a":' + "[" * 2000 + "]" * 2000 + "}"),
    "padding": lambda: signed() + "=",
    "a line break": lambda: signed() + "\n",
    "four parts": lambda: signed() + ".x",
    "a signature that was cut": lambda: signed()[:-3],
    "another spelling of the same bytes": lambda: signed().replace(".", ".!", 1),
    "not ascii": lambda: "é" + signed(),
    "null namespaces": lambda: signed(allowed_namespaces=None),
    "namespaces are no strings": lambda: signed(allowed_namespaces=[["a"]]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_does_not_hold_is_refused(case: str) -> None:
    with pytest.raises(Unauthenticated):
        Verifier(SECRET).verify(BROKEN[case]())


def test_an_expiry_beyond_all_calendars_holds() -> None:
    assert Verifier(SECRET).verify(signed(exp=10**400)).expires_at < 10**12


def test_a_token_that_was_seen_before_still_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, token = Verifier(SECRET), signed(exp=time.time() + 60)
    verifier.verify(token)
    later = time.time() + 120
    monkeypatch.setattr(tokens.time, "time", lambda: later)
    with pytest.raises(Unauthenticated, match="expired"):
        verifier.verify(token)


async def test_who_is_known_is_verified_in_less_than_20_microseconds(configuration: Conf) -> None:
    """By the very call that each request makes; the best of some rounds, since other processes work here, too."""
    plane, calls = Plane(configuration), 2_000
    token = tokens.make(configuration.jwt_secret, "me", ["a"], ["enqueue"], 600)
    sent = memoryview(f"Bearer {token}".encode())
    rounds = []
    await plane.principal({b"authorization": bytes(sent)})
    for _ in range(10):
        began = time.perf_counter()
        for _ in range(calls):
            await plane.principal({b"authorization": bytes(sent)})  # each request has bytes of its own
        rounds.append((time.perf_counter() - began) / calls)
    assert min(rounds) < 20e-6


def test_memory_of_tokens_is_bounded() -> None:
    verifier = Verifier(SECRET)
    verifier.REMEMBERED = 10
    for n in range(50):
        verifier.verify(signed(sub=f"me-{n}"))
    assert len(verifier._tokens) <= 10


@pytest.mark.parametrize(
    ("namespaces", "scopes", "namespace", "scope", "allowed"),
    [
        (["a"], ["*"], "a", "enqueue", True),
        (["a"], ["*"], "b", "enqueue", False),
        (["*"], ["enqueue"], "b", "enqueue", True),
        (["*"], ["enqueue"], "b", "dequeue", False),
        (["*"], ["b:dequeue"], "b", "dequeue", True),
        (["*"], ["b:dequeue"], "a", "dequeue", False),
        ([], ["*"], "a", "enqueue", False),
    ],
)
def test_a_principal_may_what_its_claims_say(
    namespaces: list[str], scopes: list[str], namespace: str, scope: str, allowed: bool
) -> None:
    principal = Verifier(SECRET).verify(tokens.make(SECRET, "me", namespaces, scopes, 60))
    if allowed:
        principal.require(namespace, scope)
    else:
        with pytest.raises(Forbidden):
            principal.require(namespace, scope)

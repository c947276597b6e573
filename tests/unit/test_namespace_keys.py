"""Tokens and API keys of a namespace's own keys."""

import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from mqueue.core import credentials, public_keys, sealing
from mqueue.core.credentials import Key
from mqueue.core.errors import Forbidden, Unauthenticated, UnknownKey
from mqueue.core.tokens import FAR, Verifier

ROOT = "r" * 64
SECRET = "s" * 64
KID, OTHER = "0123456789abcdef", "f" * 16
PRIVATE: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
SPKI = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
PEM = {kind: private.public_key().public_bytes(*SPKI) for kind, private in PRIVATE.items()}


class Ring(dict[str, Key]):
    def key(self, kid: str) -> Key | None:
        return self.get(kid)


def ring(*keys: Key) -> Ring:
    return Ring({one.kid: one for one in keys})


def key(kind: str, kid: str = KID, namespace: str = "acme", **more: Any) -> Key:
    material = PEM.get(kind) or (
        sealing.seal(ROOT, kid, SECRET.encode()) if kind == "HS256" else credentials.hash_of(SECRET)
    )
    fields = {"name": "worker", "scopes": frozenset(("*",)), "expires_at": FAR, "material": material} | more
    return Key(kid, namespace, kind, **fields)


def token(kind: str, kid: str = KID, **claims: Any) -> str:
    body = {"sub": "me", "exp": int(time.time()) + 60} | claims
    return jwt.encode(body, PRIVATE.get(kind, SECRET), algorithm=kind, headers={"kid": kid})


@pytest.mark.parametrize("kind", ["HS256", "RS256", "ES256", "EdDSA"])
def test_a_token_holds_with_the_key_that_it_names(kind: str) -> None:
    verifier = Verifier(ROOT, ring(key(kind)))
    for _ in range(2):
        principal = verifier.verify(token(kind))
        principal.require("acme", "enqueue")
        assert (principal.subject, principal.kid) == ("me", KID)


@pytest.mark.parametrize("on_record", ["HS256", "RS256", "ES256", "EdDSA", "api_key"])
@pytest.mark.parametrize("used", ["HS256", "RS256", "ES256", "EdDSA"])
def test_no_algorithm_but_the_one_on_record_holds(on_record: str, used: str) -> None:
    if used == on_record:
        return
    with pytest.raises(Unauthenticated):
        Verifier(ROOT, ring(key(on_record))).verify(token(used))


def hmac_with(secret: bytes, kid: str = KID, algorithm: str = "HS256") -> str:
    """As a forger writes it: PyJWT itself would refuse to sign with a public key."""
    header = {"alg": algorithm, "kid": kid}
    parts = [json.dumps(part).encode() for part in (header, {"sub": "me", "exp": int(time.time()) + 60})]
    signed = b".".join(jwt.utils.base64url_encode(part) for part in parts)
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(signed, secret)
    return (signed + b"." + jwt.utils.base64url_encode(signature)).decode()


@pytest.mark.parametrize("kind", PEM)
def test_a_public_key_is_no_hmac_secret(kind: str) -> None:
    verifier = Verifier(ROOT, ring(key(kind)))
    for algorithm in ("HS256", kind):
        for secret in (PEM[kind], PEM[kind].strip()):
            with pytest.raises(Unauthenticated):
                verifier.verify(hmac_with(secret, algorithm=algorithm))


def test_none_holds_with_no_key() -> None:
    for kind in ("HS256", "RS256"):
        unsigned = jwt.encode({"sub": "me", "exp": time.time() + 60}, None, algorithm="none", headers={"kid": KID})
        with pytest.raises(Unauthenticated):
            Verifier(ROOT, ring(key(kind))).verify(unsigned)


def test_the_root_key_does_not_sign_for_a_namespaces_key_nor_the_other_way() -> None:
    verifier = Verifier(ROOT, ring(key("HS256")))
    for forged in (hmac_with(ROOT.encode()), jwt.encode({"sub": "me", "exp": time.time() + 60}, SECRET)):
        with pytest.raises(Unauthenticated):
            verifier.verify(forged)


def test_a_token_of_another_key_does_not_hold() -> None:
    other = key("HS256", OTHER, "other", material=sealing.seal(ROOT, OTHER, b"o" * 64))
    verifier = Verifier(ROOT, ring(key("HS256"), other))
    with pytest.raises(Unauthenticated):
        verifier.verify(token("HS256", OTHER))


CLAIMED: dict[str, list[str] | None] = {
    "nothing": None,
    "all": ["*"],
    "its own": ["acme"],
    "its own and another": ["acme", "other"],
    "another": ["other"],
    "none": [],
}


@pytest.mark.parametrize("claimed", CLAIMED)
@pytest.mark.parametrize("scopes", [None, ["*"], ["other:*"], ["admin", "other:admin", "*"]])
def test_a_namespaces_key_never_reaches_another(claimed: str, scopes: list[str] | None) -> None:
    claims: dict[str, Any] = {"allowed_namespaces": CLAIMED[claimed], "scopes": scopes}
    given = {name: value for name, value in claims.items() if value is not None}
    principal = Verifier(ROOT, ring(key("HS256"))).verify(token("HS256", **given))
    for scope in ("enqueue", "dequeue", "dlq", "admin", "*"):
        for other in ("other", "default", "*", ""):
            with pytest.raises(Forbidden):
                principal.require(other, scope)
    for other in ("other", "default", "*", ""):
        with pytest.raises(Forbidden):
            principal.require_any(other)
    with pytest.raises(Forbidden):
        principal.require_admin()
    assert (principal.reach("admin") or set()) <= {"acme"}
    assert principal.reach("admin") is not None


def test_namespaces_that_are_not_its_own_leave_nothing() -> None:
    principal = Verifier(ROOT, ring(key("HS256"))).verify(token("HS256", allowed_namespaces=["other"]))
    with pytest.raises(Forbidden):
        principal.require("acme", "enqueue")


@pytest.mark.parametrize(
    ("of_key", "claimed", "granted"),
    [
        (["*"], None, ["*", "enqueue"]),
        (["*"], ["enqueue"], ["enqueue"]),
        (["enqueue", "dlq"], None, ["enqueue", "dlq"]),
        (["enqueue", "dlq"], ["*"], ["enqueue", "dlq"]),
        (["enqueue"], ["enqueue", "admin"], ["enqueue"]),
        (["enqueue"], ["dequeue"], []),
        (["*"], ["acme:dequeue"], ["dequeue"]),
        (["enqueue"], ["acme:dequeue", "acme:*"], ["enqueue"]),
        (["*"], [], []),
    ],
)
def test_a_token_grants_no_more_than_its_key(of_key: list[str], claimed: list[str] | None, granted: list[str]) -> None:
    verifier = Verifier(ROOT, ring(key("HS256", scopes=frozenset(of_key))))
    principal = verifier.verify(token("HS256", **({} if claimed is None else {"scopes": claimed})))
    for scope in ("enqueue", "dequeue", "dlq", "admin", "*"):
        if scope in granted or "*" in granted:
            principal.require("acme", scope)
        else:
            with pytest.raises(Forbidden):
                principal.require("acme", scope)


def api_key(kid: str = KID, secret: str = "") -> str:
    return credentials.write_api_key(kid, secret or credentials.new_secret())


def test_an_api_key_holds_with_its_secret_and_no_other() -> None:
    kid, secret = KID, credentials.new_secret()
    found = key("api_key", kid, material=credentials.hash_of(secret), scopes=frozenset(("enqueue",)))
    verifier = Verifier(ROOT, ring(found))
    for _ in range(2):
        principal = verifier.verify_api_key(api_key(kid, secret))
        principal.require("acme", "enqueue")
    with pytest.raises(Forbidden):
        principal.require("acme", "dequeue")
    for wrong in (api_key(kid), api_key(kid, secret) + "x", api_key(kid, secret)[:-1], secret, "", "mq_", "é" * 63):
        with pytest.raises(Unauthenticated):
            verifier.verify_api_key(wrong)


def test_neither_kind_of_key_serves_as_the_other() -> None:
    kid, secret = KID, credentials.new_secret()
    hashed = key("api_key", kid, material=credentials.hash_of(secret))
    sealed = key("HS256", OTHER, material=sealing.seal(ROOT, OTHER, secret.encode()))
    verifier = Verifier(ROOT, ring(hashed, sealed))
    with pytest.raises(Unauthenticated):
        verifier.verify_api_key(api_key(OTHER, secret))
    for material in (secret.encode(), credentials.hash_of(secret)):
        with pytest.raises(Unauthenticated):
            verifier.verify(hmac_with(material, kid))
    verifier.verify_api_key(api_key(kid, secret))
    with pytest.raises(Unauthenticated):
        verifier.verify(api_key(kid, secret))  # in the other header


@pytest.mark.parametrize(
    "revoke", [lambda known: known.clear(), lambda known: known.update({KID: key("HS256", name="new")})]
)
def test_what_was_remembered_is_forgotten_with_its_key(revoke: Callable[[Ring], None]) -> None:
    known = ring(key("HS256"))
    verifier, given = Verifier(ROOT, known), token("HS256")
    before = verifier.verify(given)
    assert verifier.verify(given) is before
    revoke(known)
    if known:
        assert verifier.verify(given) is not before
    else:
        with pytest.raises(UnknownKey):
            verifier.verify(given)
        assert given not in verifier._tokens


def test_a_key_ends_when_it_shall() -> None:
    known = ring(key("HS256", expires_at=time.time() + 30))
    assert Verifier(ROOT, known).verify(token("HS256")).expires_at < time.time() + 31
    known = ring(key("HS256", expires_at=time.time() - 1))
    with pytest.raises(Unauthenticated, match="expired"):
        Verifier(ROOT, known).verify(token("HS256"))


def test_a_secret_that_was_sealed_under_another_root_key_opens_nothing(caplog: pytest.LogCaptureFixture) -> None:
    verifier = Verifier("another" * 8, ring(key("HS256")))
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            verifier.verify(token("HS256"))
    assert caplog.text.count("sealed under another root key") == 1


def test_a_sealed_secret_cannot_be_moved_to_another_record() -> None:
    sealed = sealing.seal(ROOT, KID, b"secret")
    assert sealing.unseal(ROOT, KID, sealed) == b"secret"
    for root, name, data in ((ROOT, OTHER, sealed), ("x", KID, sealed), (ROOT, KID, sealed[:-1]), (ROOT, KID, b"")):
        with pytest.raises(sealing.Unsealable):
            sealing.unseal(root, name, data)


JWK = {
    "RS256": jwt.algorithms.RSAAlgorithm.to_jwk(PRIVATE["RS256"].public_key()),
    "ES256": jwt.algorithms.ECAlgorithm.to_jwk(PRIVATE["ES256"].public_key()),
    "EdDSA": jwt.algorithms.OKPAlgorithm.to_jwk(PRIVATE["EdDSA"].public_key()),
}


@pytest.mark.parametrize("kind", PEM)
def test_a_public_key_is_taken_in_pem_and_as_a_jwk(kind: str) -> None:
    for given in (PEM[kind].decode(), PEM[kind].decode().strip() + "\n\n", JWK[kind], json.loads(JWK[kind])):
        assert public_keys.read(kind, given) == PEM[kind]


def private_pem(kind: str) -> str:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return str(PRIVATE[kind].private_bytes(*form).decode())


def spki(private: Any) -> str:
    return str(private.public_key().public_bytes(*SPKI).decode())


WRONG_KEYS: dict[str, tuple[str, Any]] = {
    "nothing": ("RS256", ""),
    "words": ("RS256", "ssh-rsa AAAA"),
    "another kind": ("RS256", PEM["ES256"].decode()),
    "another kind, the other way": ("EdDSA", PEM["RS256"].decode()),
    "another curve": ("ES256", spki(ec.generate_private_key(ec.SECP384R1()))),
    "too few bits": ("RS256", spki(rsa.generate_private_key(65537, 1024))),
    "a private key": ("RS256", private_pem("RS256")),
    "a private JWK": ("EdDSA", jwt.algorithms.OKPAlgorithm.to_jwk(PRIVATE["EdDSA"])),
    "a symmetric JWK": ("RS256", {"kty": "oct", "k": "AAAA"}),
    "a JWK for another algorithm": ("RS256", json.loads(JWK["RS256"]) | {"alg": "RS512"}),
    "an empty JWK": ("ES256", {}),
    "a JWK of wrong types": ("RS256", {"kty": "RSA", "n": 1, "e": [1]}),
    "a JWK that is cut off": ("RS256", JWK["RS256"][:-2]),
    "too long": ("RS256", PEM["RS256"].decode() + " " * 10_000),
}


@pytest.mark.parametrize("case", WRONG_KEYS)
def test_what_is_no_public_key_for_its_algorithm_is_refused(case: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        public_keys.read(*WRONG_KEYS[case])


def test_a_private_key_is_called_one() -> None:
    with pytest.raises(ValueError, match="private key"):
        public_keys.read("RS256", private_pem("RS256"))

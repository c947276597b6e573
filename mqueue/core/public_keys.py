"""Public keys that a tenant gives us, in PEM or as a JWK: read strictly once, and kept as PEM."""

import json
import re
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from jwt import InvalidKeyError
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

LONGEST = 8 * 1024
RSA_BITS = range(2048, 8193)
RSA_EXPONENTS = range(3, 2**33)  # larger ones make each verification dear
PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey
PRIVATE_MEMBERS = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
READERS = {"RS256": RSAAlgorithm.from_jwk, "ES256": ECAlgorithm.from_jwk, "EdDSA": OKPAlgorithm.from_jwk}


def read(algorithm: str, given: str | dict[str, Any]) -> bytes:
    """As PEM. ValueError says in words for its sender what is wrong."""
    key = _of_jwk(algorithm, given) if isinstance(given, dict) else _of_text(algorithm, given)
    if wrong := _wrong_with(algorithm, key):
        raise ValueError(wrong)
    assert isinstance(key, PublicKey)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def load(pem: bytes) -> PublicKey:
    """What `read` made."""
    key = load_pem_public_key(pem)
    assert isinstance(key, PublicKey)
    return key


def _of_text(algorithm: str, text: str) -> object:
    if len(text) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    if text.lstrip().startswith("{"):
        try:
            jwk = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError("neither PEM nor a JWK") from error
        return _of_jwk(algorithm, jwk)
    if re.search(r"-----BEGIN [A-Z ]*PRIVATE KEY-----", text):
        raise ValueError("a private key, and by now no secret any more: make another pair, and send its public key")
    try:
        return load_pem_public_key(text.strip().encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("neither PEM of a public key nor a JWK") from error


def _of_jwk(algorithm: str, jwk: dict[str, Any]) -> object:
    if PRIVATE_MEMBERS & jwk.keys():
        raise ValueError("holds a secret, which by now is none any more: make another key, and send its public part")
    if jwk.get("alg") not in (None, algorithm):
        raise ValueError(f"its alg is not {algorithm}")
    try:
        return READERS[algorithm](jwk)
    except (InvalidKeyError, ValueError, TypeError, AttributeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"no JWK of a public key for {algorithm}") from error


def _wrong_with(algorithm: str, key: object) -> str:
    if algorithm == "RS256":
        if not isinstance(key, RSAPublicKey):
            return "no RSA key"
        if key.key_size not in RSA_BITS or key.public_numbers().e not in RSA_EXPONENTS:
            return "an RSA key has to have 2048 to 8192 bits, and an exponent below 2^33"
    elif algorithm == "ES256":
        if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
            return "no key on the curve P-256"
    elif not isinstance(key, Ed25519PublicKey):
        return "no Ed25519 key"
    return ""

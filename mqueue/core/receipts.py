"""A receipt names one lease: the message's id and the epoch that holds it. Clients see an opaque string."""

import binascii
import struct

_LAYOUT = struct.Struct(">QI")
_URL_SAFE, _PLAIN = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


def seal(message_id: int, epoch: int) -> str:
    return binascii.b2a_base64(_LAYOUT.pack(message_id, epoch), newline=False).translate(_URL_SAFE).decode()


def unseal(receipt: str) -> tuple[int, int] | None:
    """None for what we never issued."""
    try:
        sealed = binascii.a2b_base64(receipt.encode("ascii").translate(_PLAIN), strict_mode=True)
        message_id, epoch = _LAYOUT.unpack(sealed)
    except (ValueError, struct.error):  # binascii's error is a ValueError
        return None
    return message_id, epoch

"""A receipt names one lease: the message's id and the epoch that holds it. Clients see an opaque string."""

import base64
import binascii
import struct

_LAYOUT = struct.Struct(">QI")


def seal(message_id: int, epoch: int) -> str:
    return base64.urlsafe_b64encode(_LAYOUT.pack(message_id, epoch)).decode()


def unseal(receipt: str) -> tuple[int, int] | None:
    """None for what we never issued."""
    try:
        message_id, epoch = _LAYOUT.unpack(base64.b64decode(receipt, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, struct.error):
        return None
    return message_id, epoch

"""What a namespace and a topic may be called, and other text that has a form."""

import re

NAMESPACE = r"^[a-z0-9][a-z0-9_-]{0,62}\Z"
TOPIC = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z"
TEXT = r"^[^\x00]*\Z"  # what PostgreSQL stores as text
BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\Z"
_IDS = r"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
# Versions to come may say more after the flags, and W3C wants them taken.
TRACEPARENT = rf"^(00-{_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_IDS}(-[!-~]{{0,200}})?)\Z"

NUMBER = re.compile(r"[0-9]{1,18}")

is_namespace = re.compile(NAMESPACE).match
is_topic = re.compile(TOPIC).match


def number(text: str) -> int | None:
    """One that PostgreSQL can hold. What Unicode calls a digit is none, and nobody reads thousands of them."""
    return int(text) if NUMBER.fullmatch(text) else None

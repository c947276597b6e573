"""What may be done about messages that died of the same error."""

import re

from mqueue.core.messages import Reason
from mqueue.core.searches import JobFilter

MASKS = ("<uuid>", "<time>", "<mail>", "<hex>", "<text>", "<n>")  # what stands in a fingerprint for what differs
LONGEST = 200  # characters that a search takes


def before(reason: str) -> str:
    """What has to be done before dead letters are replayed."""
    return {
        "expired": "more consumers, or a longer ttl, and then",
        "rejected": "the consumer refuses them: mend the producer, and then",
    }.get(reason, "when the cause is gone:")


def search_for(topic: str, reason: Reason, fingerprint: str, sample: str) -> JobFilter:
    """The dead letters of this error, as nearly as a search can say it: by the longest part that is always the same."""
    parts = (part.strip()[:LONGEST] for part in re.split("|".join(MASKS), fingerprint))
    error = max((part for part in parts if part in sample), key=len, default="")
    return JobFilter(topic=topic, reason=reason, error=error or None)

"""Where requests come from, and how many an address may send in a second."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from mqueue.core import metrics
from mqueue.core.errors import RateLimited
from mqueue.core.gcra import Ask, Refusal, per_second
from mqueue.engine.buckets import Buckets

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
ONE_HOUSEHOLD = 64  # bits of an IPv6 address: whoever has one has all that begin alike


class Peers:
    def __init__(self, rate: int, trusted: tuple[Network, ...], buckets: Buckets) -> None:
        self._bucket, self._trusted, self._buckets = per_second(rate, rate), trusted, buckets
        self._named = lru_cache(maxsize=10_000)(self._name)

    async def admit(self, peer: str, forwarded: str) -> None:
        """`peer` is the other end of the connection, `forwarded` what X-Forwarded-For says."""
        if name := self._named(peer, forwarded):
            answer = await self._buckets.take([Ask(f"ip:{name}", self._bucket, 1, 1)])
            if isinstance(answer, Refusal):
                metrics.refused("ip_rate")
                raise RateLimited("This address sends too many requests", retry_after_s=answer.wait_us / 1e6)

    def _name(self, peer: str, forwarded: str) -> str:
        """The last address that is not a trusted proxy's. What stands before it anybody may have written."""
        address, left = _read(peer), forwarded.split(",")
        while address and left and any(address in network for network in self._trusted):
            before = _read(left.pop())
            if before is None:
                break
            address = before
        if isinstance(address, IPv6Address):
            return str(IPv6Network((address, ONE_HOUSEHOLD), strict=False))
        return str(address or "")


def _read(text: str) -> Address | None:
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address

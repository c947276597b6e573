"""What a process holds to serve the data plane, and the rules that come before a handler. Both adapters ask here."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from mqueue.api.exposition import Exposition
from mqueue.api.handlers import Answer, route
from mqueue.api.health import Health
from mqueue.api.peers import Peers
from mqueue.api.problems import problem
from mqueue.core import metrics
from mqueue.core.conf import Conf
from mqueue.core.errors import (
    Invalid,
    MethodNotAllowed,
    MqueueError,
    TooLarge,
    Unauthenticated,
    UnknownKey,
    UnsupportedMedia,
)
from mqueue.core.messages import MAX_REQUEST
from mqueue.core.principals import Principal
from mqueue.core.tokens import Verifier
from mqueue.engine.engine import Engine

log = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/health", "/live", "/ready"})
METRICS = "/metrics"  # the numbers of every namespace
LOOKS = frozenset({"GET", "HEAD"})
WITH_BODY = frozenset({"POST", "PATCH"})
USUAL = 2048  # bytes of a credential that is worth remembering
Headers = Mapping[bytes, bytes]  # by names in lower case


class Plane:
    def __init__(self, conf: Conf) -> None:
        self.engine = Engine(conf)
        self.health = Health(conf, self.engine)
        self._exposition = Exposition(conf, self.engine.cluster, metrics.FOLDER)
        self._verifier = Verifier(conf.jwt_secret, self.engine.settings)
        self.peers: Peers | None = None  # nobody has to ask
        if conf.api.ip_rate:
            self.peers = Peers(conf.api.ip_rate, conf.api.trusted_proxies, self.engine.buckets)

    async def open(self) -> None:
        await self.engine.open()

    async def close(self) -> None:
        await self.engine.close()
        await self.health.close()
        await self._exposition.close()

    async def principal(self, headers: Headers) -> Principal:
        """Who asks; a key that is not known yet is looked for."""
        try:
            return self.verify(headers)
        except UnknownKey as unknown:
            await self.engine.settings.look_for(unknown.kid)
            return self.verify(headers)

    def verify(self, headers: Headers) -> Principal:
        """Who asks, if his key is known. Where both spellings are there, Authorization counts, and it counts before
        X-Api-Key."""
        verify, credential = self._credential(headers)
        return verify(credential)

    def _credential(self, headers: Headers) -> tuple[Callable[[str], Principal], str]:
        given = headers.get(b"authorization") or headers.get(b"authorisation") or b""
        if not given and (api_key := headers.get(b"x-api-key")):
            return self._verifier.verify_api_key, api_key.strip().decode("latin-1")
        return self._verifier.verify, _token_of(given) if len(given) <= USUAL else _token_in(given)

    async def metrics(self, headers: Headers) -> Answer:
        principal = await self.principal(headers)
        principal.require_admin()
        return await self._exposition.answer(headers.get(b"accept", b"").decode("latin-1"), principal.reach("admin"))


def _token_in(given: bytes) -> str:
    scheme, _, token = given.partition(b" ")
    if scheme.lower() != b"bearer":
        raise Unauthenticated
    return token.strip().decode("latin-1")


_token_of = lru_cache(maxsize=4096)(_token_in)  # a client sends the same again and again


def serves(path: str) -> bool:
    return path in OPEN_PATHS or path == METRICS or route(path) is not None


def require_method(method: str, allowed: Iterable[str]) -> None:
    if method not in allowed:
        names = ", ".join(sorted(allowed))
        raise MethodNotAllowed(f"This path takes {names}", headers={"allow": names})


def require_json(method: str, headers: Headers) -> None:
    """None at all is taken for JSON; a form, which is what a bare `curl -d` sends, is not."""
    said = headers.get(b"content-type", b"")
    if said == b"application/json" or method not in WITH_BODY:
        return
    kind = said.partition(b";")[0].strip().lower()
    if kind and kind != b"application/json":
        raise UnsupportedMedia(f"The body has to be application/json, not {kind.decode('latin-1')}")


def require_size(headers: Headers) -> None:
    """What is announced as too large is not read at all."""
    announced = headers.get(b"content-length", b"0")
    require_fits(int(announced) if announced.isdigit() else 0)


def require_whole(headers: Headers, body: bytes) -> None:
    """A client that was cut off in its body may have said half of what it means, in JSON that reads well."""
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced) != len(body):
        raise Invalid(f"The body ends after {len(body)} of {int(announced)} bytes", errors=[])


def require_fits(size: int) -> None:
    if size > MAX_REQUEST:
        raise TooLarge(f"The request is over {MAX_REQUEST} bytes")


def refusal(error: Exception, method: str, path: str) -> Answer:
    """The answer to a request that failed; what is nobody's fault but ours goes to the log."""
    if isinstance(error, MqueueError):
        return problem(error)
    log.error("%s %s failed", method, path, exc_info=error)
    return problem(MqueueError("This is our fault; the service's log says more."))

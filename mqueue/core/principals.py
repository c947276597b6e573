"""Who asks, and what he may."""

from dataclasses import dataclass, field

from mqueue.core.errors import Forbidden

ANY = "*"
REMEMBERED = 1_000  # places in which one has been found to be allowed


@dataclass(frozen=True, slots=True)
class Principal:
    """What a token or an API key carries. That of a namespace's own key names the namespace with each scope."""

    subject: str
    namespaces: frozenset[str]
    scopes: frozenset[str]
    expires_at: float
    kid: str = ""  # of the namespace's own key; the root key has none
    _may: set[tuple[str, str]] = field(default_factory=set, compare=False, repr=False)

    def require(self, namespace: str, scope: str, *others: str) -> None:
        """One of the scopes. The same answer whether or not the namespace exists."""
        if (namespace, scope) in self._may:
            return
        self._require_namespace(namespace)
        if self.scopes & {ANY, scope, f"{namespace}:{scope}", f"{namespace}:{ANY}"}:
            if len(self._may) < REMEMBERED:
                self._may.add((namespace, scope))
            return
        if not any(self.scopes & {other, f"{namespace}:{other}"} for other in others):
            raise Forbidden(f"The token does not carry the scope {' or '.join((scope, *others))}")

    def require_admin(self) -> None:
        """For what shows the whole service. `*` alone is not enough: a tenant's token may carry it for its own."""
        if "admin" not in self.scopes and not (ANY in self.scopes and ANY in self.namespaces):
            raise Forbidden("The token does not carry the scope admin")

    def require_any(self, namespace: str) -> None:
        """Whoever may do anything in a namespace may look at its messages."""
        self._require_namespace(namespace)
        if not any(":" not in scope or scope.startswith(f"{namespace}:") for scope in self.scopes):
            raise Forbidden("The token carries no scope for this namespace")

    def reach(self, scope: str) -> frozenset[str] | None:
        """The namespaces in which it carries a scope; None is all of them."""
        if self.scopes & {ANY, scope}:
            return None if ANY in self.namespaces else self.namespaces
        ends = (f":{scope}", f":{ANY}")
        named = frozenset(carried.partition(":")[0] for carried in self.scopes if carried.endswith(ends))
        return named if ANY in self.namespaces else named & self.namespaces

    def _require_namespace(self, namespace: str) -> None:
        if ANY not in self.namespaces and namespace not in self.namespaces:
            raise Forbidden("The token does not carry this namespace")

"""Who asks the control plane for something: a token, an API key, or a person with a session. All are asked alike."""

from collections.abc import Iterable
from typing import Protocol

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

from mqueue.core import names
from mqueue.core.errors import Forbidden, Unauthenticated
from mqueue.core.principals import Principal
from tenants.models import Member
from tenants.rules import ADMIN_SCOPE, OWNER, RANKS, ROLES, VIEWER

SHOWN = 300  # of a name that goes into the audit log


class Asker(Protocol):
    name: str
    via: str

    def require(self, namespace: str, role: str, scope: str = ADMIN_SCOPE) -> None:
        """Forbidden unless he has at least this role there, or a token with this scope. The answer is the same whether
        or not it exists."""

    def reach(self, role: str = VIEWER) -> frozenset[str] | None:
        """The namespaces where he has at least this role; None is all of them."""


class TokenAsker:
    """A token or an API key. The scope `admin` does everything but make and delete the namespace: that takes `*`."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        self.name = principal.subject[:SHOWN]
        self.via = f"key {principal.kid}" if principal.kid else "root key"

    def require(self, namespace: str, role: str, scope: str = ADMIN_SCOPE) -> None:
        if role == OWNER:
            self._principal.require(namespace, "*")
        else:
            self._principal.require(namespace, ADMIN_SCOPE, *({scope} - {ADMIN_SCOPE}))

    def reach(self, role: str = VIEWER) -> frozenset[str] | None:
        found = self._principal.reach("*" if role == OWNER else "admin")
        if found is not None and not found:
            raise Forbidden("The token does not carry the scope admin")
        return found


class PersonAsker:
    """A superuser may do everything; other staff what their role in the namespace says."""

    via = "session"

    def __init__(self, user: User) -> None:
        self._user = user
        self.name = user.get_username()[:SHOWN]

    def require(self, namespace: str, role: str, scope: str = ADMIN_SCOPE) -> None:
        if self._user.is_superuser:
            return
        if not names.is_namespace(namespace) or not _reaches(self._roles(namespace), role):
            raise Forbidden(f"This needs the role {role} in the namespace")

    def _roles(self, namespace: str) -> Iterable[str]:
        return Member.objects.filter(user=self._user, namespace__name=namespace).values_list("role", flat=True)

    def reach(self, role: str = VIEWER) -> frozenset[str] | None:
        if self._user.is_superuser:
            return None
        enough = [held for held in ROLES if RANKS[held] >= RANKS[role]]
        found = Member.objects.filter(user=self._user, role__in=enough)
        return frozenset(found.values_list("namespace__name", flat=True))


def asker_of(user: Principal | AbstractBaseUser | AnonymousUser) -> Asker:
    if isinstance(user, Principal):
        return TokenAsker(user)
    if not isinstance(user, User):
        raise Unauthenticated("A token, an API key or a session is needed")
    if not user.is_staff:
        raise Forbidden("Only staff may do this by a session")
    return PersonAsker(user)


def _reaches(roles: Iterable[str], wanted: str) -> bool:
    return any(RANKS[role] >= RANKS[wanted] for role in roles)

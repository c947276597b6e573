"""Guessing passwords is slow, whoever guesses, and nobody is locked out by it who was here before.

An attempt counts before the password is looked at, for the account and for the address that it comes from; too many in
fifteen minutes are refused. A browser that has logged in to an account before carries a cookie that says so, and counts
for itself alone: an attacker who fills an account's or an address's count does not touch it.
"""

import hashlib
import ipaddress
import secrets

from django.core import signing
from django.db import connection

WINDOW_S = 900
MOST_OF_ACCOUNT, MOST_OF_BROWSER, MOST_OF_ADDRESS = 10, 10, 100
COOKIE, COOKIE_S = "mqueue_browser", 90 * 86_400
SALT = "mqueue.browser"
COUNT = """
INSERT INTO login_attempts AS a (who, count, since) VALUES (%(who)s, 1, now())
ON CONFLICT (who) DO UPDATE
SET count = CASE WHEN a.since < now() - %(window)s * interval '1 second' THEN 1 ELSE a.count + 1 END,
    since = CASE WHEN a.since < now() - %(window)s * interval '1 second' THEN now() ELSE a.since END
RETURNING count, ceil(%(window)s - extract(epoch FROM now() - since))::integer
"""
TAKE_BACK = "UPDATE login_attempts SET count = count - 1 WHERE who = %(who)s AND count > 0"
FORGET = "DELETE FROM login_attempts WHERE who = ANY(%(whole)s) OR since < now() - interval '1 day'"


class Attempt:
    """One, from a browser at an address, at an account."""

    def __init__(self, account: str, address: str, cookie: str) -> None:
        browser = known_browser(account, cookie)
        self._own = (
            {_key("browser", browser): MOST_OF_BROWSER} if browser else {_key("account", account): MOST_OF_ACCOUNT}
        )
        self._shared = {} if browser else {_key("address", _network(address)): MOST_OF_ADDRESS}

    def begin(self) -> int:
        """How many seconds it has to wait; 0 where the password may be looked at."""
        wait_s = 0
        with connection.cursor() as cursor:
            for who, most in sorted((self._own | self._shared).items()):
                cursor.execute(COUNT, {"who": who, "window": WINDOW_S})
                count, left_s = cursor.fetchone()
                if count > most:
                    wait_s = max(wait_s, left_s, 1)
        return wait_s

    def succeeded(self) -> None:
        """It was no guess."""
        with connection.cursor() as cursor:
            for who in self._shared:
                cursor.execute(TAKE_BACK, {"who": who})
            cursor.execute(FORGET, {"whole": list(self._own)})


def known_browser(account: str, cookie: str) -> str:
    """The name of a browser that has logged in to this account; none, or another's, is nothing."""
    try:
        whose, name = signing.loads(cookie, salt=SALT, max_age=COOKIE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return str(name) if whose == account else ""


def cookie_of(account: str) -> str:
    return signing.dumps([account, secrets.token_hex(8)], salt=SALT)


def _network(address: str) -> str:
    """Who has an address of version 6 has 2^64 of them."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)


def _key(kind: str, name: str) -> str:
    """Of a name that may be a password, typed into the wrong field."""
    return f"{kind} {hashlib.sha256(name.encode()).hexdigest()[:40]}"

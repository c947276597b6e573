"""Bring the control database and every shard to the schema of this code.

May be run again at any time, by several at once, and while traffic flows: one runs at a time, and a change that needs
a table for itself gives up after a moment rather than make every enqueue queue behind it, then tries again.
"""

import contextlib
import datetime
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError, ProgrammingError
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mqueue.core.conf import Conf
from shards.databases import STORE, alias
from shards.models import Deployment, SlotMap
from shards.partitions import DAYS_AHEAD, PARENTS
from shards.routing import default_owners

# Well below a request's own: it waits behind the migration that waits. The longer one outlasts deadlock_timeout, after
# which a vacuum that is in the way is ended.
LOCK_TIMEOUT, LONG_EACH, LONG_TIMEOUT = "500ms", 5, "1200ms"
LOCK_TRIES = 60
IN_USE = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)  # with a request; nothing was done
MIGRATION_LOCK = 0x6D717565  # any number that nothing else locks

Say = Callable[[str], None]


class MigrateError(Exception):
    """A database cannot be brought up to date; the message says why and what to do."""


def migrate_all(conf: Conf, say: Say) -> None:
    names = {"control database": conf.control_url}
    names |= {f"shard {n}": url for n, url in enumerate(conf.shard_urls)}
    for name, url in names.items():
        if _create_if_missing(name, url):
            say(f"{name}: created")
    with _one_at_a_time():
        _migrate("default", None, say, "control database")
        _grant_reader("default", say, "control database")
        deployment = _deployment()
        _first_slot_map(conf, say)
        for number in range(len(conf.shard_urls)):
            _migrate(alias(number), STORE, say, f"shard {number}")
            _identify(number, deployment)
            _finish_shard(number, say)
    for connection in connections.all(initialized_only=True):
        connection.close()


def _create_if_missing(name: str, url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
        return False
    except psycopg.OperationalError as error:
        refused = error
    database = str(conninfo_to_dict(url)["dbname"])
    try:
        with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True, connect_timeout=5) as connection:
            if connection.execute("SELECT FROM pg_database WHERE datname = %s", [database]).fetchone() is not None:
                return _is_there_by_now(name, url)
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
    except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
        return False  # another migrator was quicker
    except psycopg.Error as error:
        raise MigrateError(
            f"{name}: {str(refused).strip()}; and no database {database!r} could be made: {str(error).strip()}. "
            f"Make it, or name another in {'CONTROL_DATABASE_URL' if 'control' in name else 'DATABASE_URLS'}"
        ) from error
    return True


def _is_there_by_now(name: str, url: str) -> bool:
    """Another migrator may have made it since we were refused. Says that we did not."""
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        raise MigrateError(f"{name}: {error}") from error
    return False


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])


def _migrate(database: str, app: str | None, say: Say, name: str) -> None:
    executor = MigrationExecutor(connections[database])
    leaves = [node for node in executor.loader.graph.leaf_nodes() if app is None or node[0] == app]
    plan = executor.migration_plan(leaves)
    if not plan:
        return
    say(f"{name}: {len(plan)} migrations to apply")
    for tried in range(1, LOCK_TRIES + 1):
        with connections[database].cursor() as cursor:
            patience = LOCK_TIMEOUT if tried % LONG_EACH else LONG_TIMEOUT
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [patience])
        try:
            call_command("migrate", *([app] if app else []), database=database, verbosity=0, interactive=False)
            return
        except OperationalError as error:
            if not isinstance(error.__cause__, IN_USE) or tried == LOCK_TRIES:
                raise
            say(f"{name}: a table is in use; trying again ({tried} of {LOCK_TRIES})")
            time.sleep(1)


def _deployment() -> uuid.UUID:
    return Deployment.objects.get_or_create(singleton=True)[0].identity


def _first_slot_map(conf: Conf, say: Say) -> None:
    newest = SlotMap.objects.order_by("-version").first()
    shards = len(conf.shard_urls)
    if newest is None:
        SlotMap.objects.create(owners=list(default_owners(shards)), reason=f"new deployment of {shards} shards")
        return
    needed = max(newest.owners) + 1
    if shards < needed:
        raise MigrateError(
            f"the slot map spreads messages over {needed} shards, and there are {shards}: "
            "DATABASE_URLS (or MQUEUE_SHARDS) has to name as many as before"
        )
    if shards > needed:
        say(f"the slot map uses {needed} of {shards} shards: the others hold nothing until slots are moved to them")


def _identify(number: int, deployment: uuid.UUID) -> None:
    """A shard database remembers which it is: in another order, DATABASE_URLS would lead to foreign messages."""
    with connections[alias(number)].cursor() as cursor:
        cursor.execute(
            "INSERT INTO shard_identity (deployment, number) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            [deployment, number],
        )
        cursor.execute("SELECT deployment, number FROM shard_identity")
        found = cursor.fetchone()
    if found != (deployment, number):
        raise MigrateError(
            f"DATABASE_URLS[{number}] names shard {found[1]} of deployment {found[0]}, and this is {deployment}: "
            "put DATABASE_URLS in its old order, or name the control database that belongs to these shards"
        )


def _finish_shard(number: int, say: Say) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    with connections[alias(number)].cursor() as cursor:
        for parent in PARENTS:
            for days in range(DAYS_AHEAD + 1):
                cursor.execute("SELECT make_partition(%s, %s)", [parent, today + datetime.timedelta(days)])
    _grant_reader(alias(number), say, f"shard {number}")


def _grant_reader(database: str, say: Say, name: str) -> None:
    try:
        with connections[database].cursor() as cursor:
            cursor.execute((Path(__file__).parent / "sql" / "grant_reader.sql").read_text())
    except ProgrammingError as error:
        if not isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
            raise
        say(f"{name}: no right to make the role mqueue_reader: let a superuser make it, then run this again")

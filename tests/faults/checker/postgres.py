"""A PostgreSQL of its own for each database, so that each can be broken by itself."""

import subprocess
from pathlib import Path
from urllib.parse import quote

import psycopg

from launch import embedded, processes
from tests.faults.checker.disks import Disk
from tests.faults.checker.server import Server

SMALL = {"shared_buffers": "64MB", "max_wal_size": "160MB", "min_wal_size": "48MB", "checkpoint_timeout": "60s"}


class Postgres(Server):
    """Of one database."""

    def __init__(
        self, name: str, folder: Path, database: str, made: "Postgres | None", disk: Disk | None = None
    ) -> None:
        super().__init__(name, folder, disk)
        self.database = database
        self._data = embedded.postgres_folder(self.placed)
        if made is None:
            embedded.make_postgres(self.placed, self.account)
        else:  # a copy of another that has never run: initdb takes its time
            subprocess.run(["cp", "-a", str(made._data), str(self._data)], check=True)

    @property
    def address(self) -> Path:
        return self.placed.sockets / ".s.PGSQL.5432"

    @property
    def url(self) -> str:
        """Past the line."""
        return self.url_of(self.database)

    def url_of(self, database: str) -> str:
        return f"postgresql://mqueue@/{database}?host={quote(str(self.placed.sockets), safe='')}"

    def command(self) -> list[str]:
        command = embedded.postgres_command(self.placed, self.account)
        for name, value in SMALL.items():
            command += ["-c", f"{name}={value}"]
        return command

    def before_start(self) -> None:
        processes.clear_stale_postmaster(self._data, self.placed.sockets)

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url_of("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill_a_backend(self) -> None:
        """PostgreSQL then ends all sessions and recovers."""
        for process in self._all()[1:]:
            if "mqueue" in " ".join(process.cmdline()) and "idle" in " ".join(process.cmdline()):
                process.kill()
                return
        self.kill()

    def end_sessions(self) -> None:
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'mqueue%'"
            )

"""Where and with what a run was made: figures without it mean nothing."""

import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import psycopg
import redis

from bench.service import Service

SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size")
SYNCS = 200


def describe() -> dict[str, Any]:
    """The machine, the versions, and the settings that every service of this bench runs with."""
    with Service() as service, psycopg.connect(service.conf.shard_urls[0]) as connection:
        valkey = redis.Redis.from_url(service.conf.redis.url)
        settings = {name: str(shown(connection, name)) for name in SETTINGS}
        return {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "kernel": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
            "postgresql": shown(connection, "server_version"),
            "valkey": valkey.info()["valkey_version"],
            "fdatasync_us": round(sync_us(service.folder)),
            "load_before": os.getloadavg()[0],
            "settings": settings | {"appendfsync": valkey.config_get("appendfsync")["appendfsync"]},
        }


def cpu_model() -> str:
    """As the kernel names it."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def shown(connection: "psycopg.Connection[Any]", name: str) -> Any:
    row = connection.execute(f"SHOW {name}".encode()).fetchone()
    assert row
    return row[0]


def sync_us(folder: Path) -> float:
    """How long the disk takes to make a page durable: the price of each commit that shares its flush with no other."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(8192 * SYNCS))
        os.fsync(file.fileno())
        began = time.perf_counter()
        for page in range(SYNCS):
            os.pwrite(file.fileno(), bytes(8192), page * 8192)
            os.fdatasync(file.fileno())
        return 1e6 * (time.perf_counter() - began) / SYNCS

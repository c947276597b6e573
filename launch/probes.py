"""Is it ready? One question a server, asked again and again while we start."""

import asyncio
import contextlib
import os
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import redis.asyncio


class PortTaken(Exception):
    """Something else listens where we want to."""


async def postgres(url: str) -> bool:
    try:
        async with await psycopg.AsyncConnection.connect(url, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


async def valkey(url: str) -> bool:
    client = redis.asyncio.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2)
    try:
        return bool(await client.ping())
    except redis.RedisError:
        return False  # also while it loads its append-only file
    finally:
        await client.aclose()


async def http(url: str) -> bool:
    """Does it answer 200? The certificate is our own affair here, so its name is not checked."""
    parts = urlsplit(url)
    context = None
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
            with contextlib.closing(writer):
                writer.write(f"GET {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: close\r\n\r\n".encode())
                return b" 200 " in await reader.readline()
    except (OSError, TimeoutError):
        return False


async def file(path: Path) -> bool:
    return path.exists()


def require_free_port(host: str, port: int, setting: str) -> None:
    """Say which port is taken and what to set, rather than let a server fail in its log."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            hint = f"set {setting}, for example: make run {setting}={port + 1}"
            raise PortTaken(f"port {port} on {host} cannot be used: {os.strerror(error.errno or 0)}; {hint}") from error

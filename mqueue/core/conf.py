"""The environment, read once into frozen values. No other module looks at `os.environ` for a setting."""

import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent.parent
DAY_MS = 86_400_000
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ConfError(Exception):
    """The environment cannot be used; the message names each variable and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Api:
    host: str
    port: int
    workers: int
    metrics_host: str
    metrics_port: int
    tls_cert: Path | None
    tls_key: Path | None
    fast_lane: bool
    bodies_bytes: int  # of requests that are held at once
    ip_rate: int  # requests a second and address; 0 is no limit
    trusted_proxies: tuple[Network, ...]  # whose X-Forwarded-For is believed

    @property
    def origin(self) -> str:
        return self._origin(self.host, self.port)

    @property
    def metrics_origin(self) -> str:
        return self._origin(self.metrics_host, self.metrics_port)

    def _origin(self, host: str, port: int) -> str:
        scheme = "https" if self.tls_cert else "http"
        host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104  shown, not bound
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


@dataclass(frozen=True, slots=True)
class Metrics:
    folder: Path  # the files that processes count in: shared by all whose numbers are shown together
    topics: int  # as many are told apart
    counters: bool  # or only what is looked up at a scrape


@dataclass(frozen=True, slots=True)
class Redis:
    url: str = field(repr=False)
    sentinels: tuple[str, ...]
    master: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pool:
    """Connections of one process to one shard, and how long any of them may make a caller wait."""

    min_size: int
    max_size: int
    connect_timeout_s: int
    acquire_timeout_ms: int
    statement_timeout_ms: int
    lock_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Retention:
    retention_days: int
    dedupe_window_ms: int


@dataclass(frozen=True, slots=True)
class Lake:
    """Where history goes when its day is over. Without a URL there is none, and retention alone ends a day."""

    url: str
    grace_hours: int  # a published partition stays on its shard for at least as long
    retention_days: int = 0  # of the lake itself; 0: for ever

    @property
    def is_on(self) -> bool:
        return bool(self.url)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Which servers we start ourselves, and where their files and sockets lie."""

    postgres: bool
    redis: bool
    shards: int
    state: Path
    sockets: Path


@dataclass(frozen=True, slots=True)
class Conf:
    data: Path
    wal_dir: Path
    wal_bytes: int  # of one API process's log for one shard, at most
    api: Api
    metrics: Metrics
    shard_urls: tuple[str, ...] = field(repr=False)
    control_url: str = field(repr=False)
    redis: Redis
    pool: Pool
    retention: Retention
    lake: Lake
    embedded: Embedded
    jwt_secret: str = field(repr=False)
    namespace_quotas: Mapping[str, int]
    auto_create_namespaces: bool
    debug: bool
    allowed_hosts: tuple[str, ...]

    @property
    def django_secret(self) -> str:
        """Sessions and CSRF of the admin; derived, so that one secret is enough to run several API nodes."""
        return hmac.new(self.jwt_secret.encode(), b"mqueue django secret key", hashlib.sha256).hexdigest()


@cache
def conf() -> Conf:
    """The configuration of this process."""
    return read(os.environ)


def read(env: Mapping[str, str]) -> Conf:
    reader = _Reader(env)
    data = Path(reader.text("MQUEUE_DATA", str(ROOT / ".mqueue"))).expanduser().absolute()
    shard_urls = reader.urls("DATABASE_URLS")
    sentinels = tuple(part.strip() for part in reader.text("REDIS_SENTINELS", "").split(",") if part.strip())
    redis_url = reader.text("REDIS_URL", "")
    embedded = _embedded(reader, data, postgres=not shard_urls, redis=not (redis_url or sentinels))
    if redis_url and not re.match(r"(rediss?|unix)://.", redis_url):
        reader.problem("REDIS_URL", "has to begin with redis://, rediss:// or unix://")
    for sentinel in sentinels:
        if not re.fullmatch(r"[^:,/@]+(:[0-9]{1,5})?", sentinel):
            reader.problem("REDIS_SENTINELS", f"has {sentinel!r}, which is not host:port")
    if sentinels and redis_url:
        reader.problem("REDIS_URL", "is set together with REDIS_SENTINELS: choose one")
    if sentinels and not reader.text("REDIS_MASTER", ""):
        reader.problem("REDIS_MASTER", "is needed with REDIS_SENTINELS: the name of the master set")
    if embedded.postgres:
        shard_urls = tuple(_socket_url(embedded.sockets, f"mqueue_shard_{n}") for n in range(embedded.shards))
    result = Conf(
        data=data,
        wal_dir=Path(reader.text("WAL_DIR", str(data / "wal"))).expanduser().absolute(),
        wal_bytes=reader.integer("WAL_MAX_MB", 256, 1, 1_000_000) << 20,
        api=_api(reader),
        metrics=Metrics(
            folder=Path(reader.text("METRICS_DIR", str(data / "run" / "metrics"))).expanduser().absolute(),
            topics=reader.integer("METRICS_TOPICS", 500, 1, 100_000),
            counters=reader.flag("METRICS_COUNTERS", True),
        ),
        shard_urls=shard_urls,
        control_url=reader.url("CONTROL_DATABASE_URL") or _control_beside(shard_urls, embedded),
        redis=Redis(
            url=redis_url or f"unix://{quote(str(embedded.sockets))}/valkey.sock?db=0",
            sentinels=sentinels,
            master=reader.text("REDIS_MASTER", ""),
            password=reader.text("REDIS_PASSWORD", ""),
        ),
        pool=_pool(reader),
        retention=Retention(
            retention_days=reader.integer("MQUEUE_RETENTION_DAYS", 7, 1, 3650),
            dedupe_window_ms=reader.integer("MQUEUE_DEDUPE_WINDOW_MS", DAY_MS, 1000, 3650 * DAY_MS),
        ),
        lake=Lake(
            url=_lake_url(reader),
            grace_hours=reader.integer("LAKE_GRACE_HOURS", 24, 0, 8760),
            retention_days=reader.integer("LAKE_RETENTION_DAYS", 0, 0, 36500),
        ),
        embedded=embedded,
        jwt_secret=reader.text("JWT_SECRET", ""),
        namespace_quotas=_quotas(reader),
        auto_create_namespaces=reader.flag("AUTO_CREATE_NAMESPACES", True),
        debug=reader.flag("MQUEUE_DEBUG", False),
        allowed_hosts=tuple(reader.text("MQUEUE_ALLOWED_HOSTS", "*").split(",")),
    )
    reader.raise_problems()
    return result if result.jwt_secret else _with_kept_secret(result)


def _api(reader: "_Reader") -> Api:
    cert, key = reader.file("TLS_CERT_FILE"), reader.file("TLS_KEY_FILE")
    if bool(cert) != bool(key):
        reader.problem("TLS_KEY_FILE" if cert else "TLS_CERT_FILE", "is missing: TLS needs both files")
    elif cert and key:
        _check_tls(reader, cert, key)
    port, metrics_port = reader.integer("MQUEUE_PORT", 8080, 1, 65535), reader.integer("METRICS_PORT", 2112, 1, 65535)
    if port == metrics_port:
        reader.problem("METRICS_PORT", "is the same as MQUEUE_PORT")
    return Api(
        host=reader.address("MQUEUE_HOST", "127.0.0.1"),
        port=port,
        workers=reader.integer("MQUEUE_API_WORKERS", 1, 1, 256),
        metrics_host=reader.address("METRICS_HOST", "127.0.0.1"),
        metrics_port=metrics_port,
        tls_cert=cert,
        tls_key=key,
        fast_lane=reader.flag("MQUEUE_FAST_LANE", True),
        bodies_bytes=reader.integer("MQUEUE_BODIES_MIB", 128, 16, 1_000_000) * 1024 * 1024,
        ip_rate=reader.integer("MQUEUE_IP_RATE", 0, 0, 1_000_000),
        trusted_proxies=reader.networks("MQUEUE_TRUSTED_PROXIES"),
    )


def _check_tls(reader: "_Reader", cert: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one
        reader.problem("TLS_CERT_FILE", f"and TLS_KEY_FILE are no certificate with its key: {error}")


def _pool(reader: "_Reader") -> Pool:
    return Pool(
        min_size=reader.integer("MQUEUE_POOL_MIN", 1, 0, 1000),
        max_size=reader.integer("MQUEUE_POOL_MAX", 8, 1, 1000),
        connect_timeout_s=reader.integer("MQUEUE_CONNECT_TIMEOUT_S", 2, 1, 60),
        acquire_timeout_ms=reader.integer("MQUEUE_ACQUIRE_TIMEOUT_MS", 3_000, 10, 600_000),
        statement_timeout_ms=reader.integer("MQUEUE_STATEMENT_TIMEOUT_MS", 5_000, 100, 600_000),
        lock_timeout_ms=reader.integer("MQUEUE_LOCK_TIMEOUT_MS", 2_000, 10, 600_000),
    )


def _quotas(reader: "_Reader") -> Mapping[str, int]:
    quotas = {}
    for part in filter(None, reader.text("NAMESPACE_QUOTAS", "").split(",")):
        namespace, _, amount = part.strip().partition("=")
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", namespace) or not re.fullmatch(r"0*[1-9][0-9]{0,14}", amount):
            reader.problem("NAMESPACE_QUOTAS", f"has {part!r}, which is not namespace=messages-per-minute")
        else:
            quotas[namespace] = int(amount)
    return MappingProxyType(quotas)


def _embedded(reader: "_Reader", data: Path, *, postgres: bool, redis: bool) -> Embedded:
    """The launcher notes where it put the servers when that is not under MQUEUE_DATA itself."""
    placed = {"state": str(data / "state"), "sockets": str(data / "sockets")}
    try:
        placed |= json.loads((data / "embedded.json").read_text())
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        reader.problem("MQUEUE_DATA", f"holds an embedded.json that cannot be read: {error}")
    return Embedded(
        postgres=postgres,
        redis=redis,
        shards=reader.integer("MQUEUE_SHARDS", 2, 1, 64),
        state=Path(placed["state"]),
        sockets=Path(placed["sockets"]),
    )


def _lake_url(reader: "_Reader") -> str:
    """A folder, or a URI that pyarrow knows: file, s3, gs, hdfs."""
    text = reader.text("LAKE_URL", "")
    if not text or re.match(r"(file:///|s3://|gs://|gcs://|hdfs://).", text):
        return text.rstrip("/")
    if "://" in text:
        reader.problem("LAKE_URL", f"is {redacted(text)!r}: a folder, or a URI of file, s3, gs or hdfs")
        return ""
    return Path(text).expanduser().absolute().as_uri()


def _socket_url(sockets: Path, database: str) -> str:
    return f"postgresql://mqueue@/{database}?host={quote(str(sockets), safe='')}"


def _control_beside(shard_urls: tuple[str, ...], embedded: Embedded) -> str:
    """On the first shard's server, in a database of its own: `<first shard's database>_control`."""
    if embedded.postgres:
        return _socket_url(embedded.sockets, "mqueue_control")
    if not shard_urls:
        return ""
    return re.sub(r"^([a-z]+://[^/]*/)([^?]*)", r"\1\2_control", shard_urls[0], count=1)


def _with_kept_secret(unfinished: Conf) -> Conf:
    return replace(unfinished, jwt_secret=kept_secret(unfinished.data))


def kept_secret(data: Path) -> str:
    """The random root key of an installation that was given none: made once, readable by its owner only."""
    path = data / "jwt_secret"
    data.mkdir(parents=True, exist_ok=True)
    draft = data / f".jwt_secret.{os.getpid()}.{secrets.token_hex(4)}"
    if not path.exists():
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # the first of several racing processes wins, and none sees half a file
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    secret = path.read_text().strip()
    if not secret:
        raise ConfError(f"{path} is empty: delete it, and a new secret is made (tokens of the old one no longer hold)")
    return secret


class _Reader:
    """Typed look-ups that collect every problem, so that one run shows them all."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._problems: list[str] = []

    def problem(self, name: str, what: str) -> None:
        self._problems.append(f"{name} {what}")

    def raise_problems(self) -> None:
        if self._problems:
            raise ConfError("; ".join(self._problems))

    def text(self, name: str, default: str) -> str:
        return self._env.get(name, "").strip() or default

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        text = self.text(name, str(default))
        if re.fullmatch(r"-?[0-9]{1,18}", text) and low <= int(text) <= high:
            return int(text)
        self.problem(name, f"is {text!r}, and has to be a whole number from {low} to {high}")
        return default

    def address(self, name: str, default: str) -> str:
        text = self.text(name, default)
        if text == "localhost":
            return "127.0.0.1"
        try:
            return str(ipaddress.ip_address(text))
        except ValueError:
            self.problem(name, f"is {text!r}, and has to be an IP address, such as 127.0.0.1 or 0.0.0.0")
            return default

    def networks(self, name: str) -> tuple[Network, ...]:
        found = []
        for part in filter(None, (part.strip() for part in self.text(name, "").split(","))):
            try:
                found.append(ipaddress.ip_network(part, strict=False))
            except ValueError:
                self.problem(name, f"has {part!r}, which is neither an IP address nor a network, such as 10.0.0.0/8")
        return tuple(found)

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text in ("1", "true", "yes", "on"):
            return True
        if text not in ("0", "false", "no", "off"):
            self.problem(name, f"is {text!r}, and has to be true or false")
        return False

    def file(self, name: str) -> Path | None:
        text = self.text(name, "")
        if text and not os.access(text, os.R_OK):
            self.problem(name, f"names {text!r}, which cannot be read")
        return Path(text).absolute() if text else None

    def url(self, name: str) -> str:
        urls = self.urls(name)
        if len(urls) > 1:
            self.problem(name, "names more than one database")
        return urls[0] if urls else ""

    def urls(self, name: str) -> tuple[str, ...]:
        """A comma may also stand inside a URL with several hosts, so only one before a scheme separates."""
        urls = tuple(part.strip() for part in re.split(r",\s*(?=[a-z]+://)", self.text(name, "")) if part.strip())
        for url in urls:
            if not re.match(r"postgres(ql)?://[^/]*/[^/?]+", url):
                self.problem(name, f"has {redacted(url)!r}, which is not postgresql://user:password@host:port/database")
        if len(set(urls)) < len(urls):
            self.problem(name, "names one database twice")
        return urls


def redacted(url: str) -> str:
    """The URL as a log may show it."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", url)

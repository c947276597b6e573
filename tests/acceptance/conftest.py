"""One running service a test worker, on databases of its own; and beside it an API process without the fast lane.

Every test that asks for `service` or `http` runs against both, unless it carries `once`: it is then not about what an
adapter does.
"""

import secrets
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.acceptance.people import make_user, session
from tests.servers import running, worker_number
from tests.service import START_S, Service

SEEDED = "seeded-by-the-environment"


class Services:
    """Each starts when the first test needs it."""

    def __init__(self) -> None:
        servers, number = running(), worker_number()
        self._prefix = f"s{number}"
        self._data = servers.data / f"service-{number}"
        self._env = servers.environment(self._prefix, 32 + number) | {"NAMESPACE_QUOTAS": f"{SEEDED}=77"}
        self._started: dict[str, Service] = {}

    def __getitem__(self, adapter: str) -> Service:
        if "fast lane" not in self._started:
            running().clone(self._prefix)
            self._started["fast lane"] = Service(self._data, self._env).start()
        if adapter not in self._started:
            self._started[adapter] = self._start_django()
        return self._started[adapter]

    def _start_django(self) -> Service:
        """The API alone; leases end and partitions are made by the first service's daemons."""
        data = self._data.with_name(f"{self._data.name}-django")
        command = [sys.executable, "-m", "launch", "only", "api"]
        service = Service(data, self._env | {"MQUEUE_FAST_LANE": "false"}, command).start(wait=False)
        service.until(service.is_ready, START_S, "the API answers")
        return service

    def stop(self) -> None:
        services = list(reversed(self._started.values()))
        try:
            for service in services:
                assert service.stop() == 0, service.output()
                assert service.descendants() == []
        finally:
            for service in services:
                service.end()


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    services = Services()
    yield services
    services.stop()


@pytest.fixture(params=["fast lane", "django"])
def adapter(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def service(services: Services, adapter: str) -> Service:
    return services[adapter]


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    """With a token for everything."""
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def root(services: Services) -> tuple[str, str]:
    name = f"root-{secrets.token_hex(3)}"
    return name, make_user(services["fast lane"], name, is_superuser=True)


@pytest.fixture(scope="module")
def staff(services: Services) -> tuple[str, str]:
    name = f"staff-{secrets.token_hex(3)}"
    return name, make_user(services["fast lane"], name)


@pytest.fixture
def browser(service: Service, root: tuple[str, str]) -> Iterator[httpx.Client]:
    with session(service, *root) as browser:
        yield browser


@pytest.fixture
def home(http: httpx.Client, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/"
    assert http.put(path, json={}).status_code == 201
    return path

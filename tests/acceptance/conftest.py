"""One running service a test worker, on databases of its own."""

from collections.abc import Iterator

import httpx
import pytest

from tests.servers import running, worker_number
from tests.service import Service


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    servers, number = running(), worker_number()
    prefix = f"s{number}"
    servers.clone(prefix)
    service = Service(servers.data / f"service-{number}", servers.environment(prefix, 32 + number))
    try:
        yield service.start()
        assert service.stop() == 0
        assert service.descendants() == []
    finally:
        service.end()


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    """With a token for everything."""
    with service.client() as client:
        yield client

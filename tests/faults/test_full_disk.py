"""Everything that `make run` keeps lies on one disk, and that is full: PostgreSQL, Redis, logs, notes, metrics."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.checker.disks import Disk
from tests.faults.test_buffered import Producer, make_buffered
from tests.faults.traffic import Traffic
from tests.service import Service

pytestmark = [pytest.mark.fault, pytest.mark.timeout(180)]
LARGE = "x" * 200_000


@pytest.fixture
def disk(folder: Path) -> Iterator[Disk]:
    if why_not := Disk.why_not(folder):
        pytest.skip(why_not)
    disk = Disk()
    (folder / "disk").mkdir()
    disk.mount(folder / "disk")
    try:
        yield disk
    finally:
        disk.unmount()


@pytest.fixture
def service(folder: Path, disk: Disk) -> Iterator[Service]:
    service = Service(folder / "disk" / "data")
    service.log = folder / "terminal.log"
    try:
        yield service.start()
    finally:
        disk.clear()
        service.end()


def is_well(service: Service) -> bool:
    with service.client() as http:
        return bool(http.get("/health").json()["status"] == "OK")


def test_a_full_disk_loses_nothing_and_heals_when_there_is_room(service: Service, disk: Disk) -> None:
    make_buffered(service, "full")
    with Producer(service, "full") as producer, Traffic(service) as traffic:
        time.sleep(1)
        disk.fill()
        with service.client() as http:
            body = [{"namespace": "default", "topic": "large", "body": LARGE}] * 20
            service.until(lambda: http.post("/enqueue", json=body).status_code == 503, 60, "the disk is full")
        service.until(lambda: bool(producer.refused), 20, "buffered topics refuse messages")
        time.sleep(5)
        disk.clear()
        healing = service.until(lambda: is_well(service), 20, "it is well again")
        print(f"well {healing:.1f} s after there was room; slowest call {traffic.slowest_s:.1f} s")
        acked = len(traffic.acked)
        taken = len(producer.promised)
        service.until(lambda: len(traffic.acked) > acked + 20, 10, "delivery goes on")
        service.until(lambda: len(producer.promised) > taken + 20, 10, "buffered topics take messages again")
    traffic.verdict()
    producer.verdict()
    assert service.stop() == 0

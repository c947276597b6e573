"""Jobs without anybody who does them: they wait, and say so."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.test_jobs import over
from tests.acceptance.test_only import alone, only
from tests.service import Service

__all__ = ["alone"]


@pytest.fixture
def lonely(alone: Service) -> Iterator[httpx.Client]:
    """An API without a Celery worker."""
    only(alone, "api")
    alone.until(alone.is_ready, 30, "the API answers")
    with alone.client() as http:
        yield http


def test_without_a_worker_a_job_waits_and_says_so(lonely: httpx.Client, alone: Service, tmp_path: Path) -> None:
    home = "/api/v1/namespaces/quiet/"
    lonely.put(home, json={})
    job = lonely.post(home + "jobs/", json={"kind": "delete", "filter": {}}).json()
    assert job["state"] == "queued"
    assert "python -m launch only celery" in job["hint"]
    worker = Service(tmp_path / "worker", alone.env | {"MQUEUE_DATA": str(tmp_path / "worker")})
    try:
        only(worker, "celery")
        done = over(worker, lonely, home, job)
        assert (done["state"], done["hint"]) == ("done", None)
        assert worker.output().count("mqueue.run_jobs") <= 3  # looking for jobs is no news
    finally:
        worker.end()

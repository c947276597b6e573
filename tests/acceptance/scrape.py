"""Reading /metrics as Prometheus does."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.service import Service

Labels = dict[str, str]


class Scrape:
    def __init__(self, text: str) -> None:
        self.samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def get(self, name: str, **labels: str) -> float | None:
        """The one sample that has these labels; None where there is none."""
        found = [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        assert len(found) < 2, (name, labels, found)
        return found[0] if found else None

    def names(self) -> set[str]:
        return {sample.name for sample in self.samples}


def scrape(service: Service) -> Scrape:
    answer = httpx.get(service.metrics_url, timeout=10)
    assert answer.status_code == 200, answer.text
    return Scrape(answer.text)

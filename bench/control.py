"""Settings of a namespace and of its topics, by the control plane, as anybody would."""

import json
import time
import urllib.request

from bench.scripts import NAMESPACE
from bench.service import Service

SEEN_S = 2.0  # by then every process knows of a change


def set_topic(service: Service, topic: str, **settings: object) -> None:
    """The topic is made if need be."""
    _put(service, f"{NAMESPACE}/", {})
    _put(service, f"{NAMESPACE}/topics/{topic}/", settings)
    time.sleep(SEEN_S)


def set_quotas(service: Service, namespace: str, **quotas: int | None) -> None:
    """The namespace is made if need be."""
    _put(service, f"{namespace}/", {})
    _put(service, f"{namespace}/quotas/", quotas)
    time.sleep(SEEN_S)


def _put(service: Service, path: str, body: dict[str, object] | dict[str, int | None]) -> None:
    headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}
    url = f"{service.conf.api.origin}/api/v1/namespaces/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
    urllib.request.urlopen(request, timeout=10).close()

"""Settings of a topic of the bench, by the control plane, as anybody would."""

import json
import time
import urllib.request

from bench.scripts import NAMESPACE
from bench.service import Service

SEEN_S = 2.0  # by then every process knows of a change


def set_topic(service: Service, topic: str, **settings: object) -> None:
    """The topic is made if need be."""
    for path in (f"namespaces/{NAMESPACE}/", f"namespaces/{NAMESPACE}/topics/{topic}/"):
        body = json.dumps(settings if "topics" in path else {}).encode()
        headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{service.conf.api.origin}/api/v1/{path}", body, headers, method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
    time.sleep(SEEN_S)

"""What tracing costs: the full cycle in a topic that is traced, beside one whose deliveries write no events.

Counts and histograms are on in both: no switch turns them off, and to take them out of the code would measure another
product.
"""

import json
import time
import urllib.request
from functools import partial

from bench.core import PREFILL, circulate
from bench.rows import Row
from bench.scripts import NAMESPACE
from bench.service import Service
from bench.stage import Measure, Stage, play

NAMES = ("overhead",)
SEEN_S = 2.0  # by then every process knows of a change


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Rounds of both."""
    with Service() as service:
        stop_tracing(service, "untraced")
        measures = [
            Measure(f"the full cycle, {topic}", {"": partial(circulate, service, stage.seconds, topic, PREFILL)})
            for topic in ("traced", "untraced")
        ]
        ours, against = play(stage, measures)
    return [Row("overhead", "full cycle, traced", "messages/s", ours, against, at_least=0.8)]


def stop_tracing(service: Service, topic: str) -> None:
    """By the control plane, as anybody would."""
    for path in (f"namespaces/{NAMESPACE}/", f"namespaces/{NAMESPACE}/topics/{topic}/"):
        body = json.dumps({"tracing": False} if "topics" in path else {}).encode()
        headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{service.conf.api.origin}/api/v1/{path}", body, headers, method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
    time.sleep(SEEN_S)

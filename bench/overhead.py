"""What tracing and metrics cost: the full cycle as it comes, beside a service that does neither.

Both run all the while, and their rounds take turns: an idle one takes a hundredth of a core.
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
TOPIC = "cycle"
SEEN_S = 2.0  # by then every process knows of a change


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Rounds of both."""
    with Service() as watched, Service(env={"METRICS_COUNTERS": "false"}) as blind:
        stop_tracing(blind, TOPIC)
        measures = [
            Measure(f"the full cycle, {how}", {"": partial(circulate, service, stage.seconds, TOPIC, PREFILL)})
            for how, service in (("traced and counted", watched), ("neither", blind))
        ]
        ours, against = play(stage, measures)
    return [Row("overhead", ours.title, "messages/s", ours, against, at_least=0.8)]


def stop_tracing(service: Service, topic: str) -> None:
    """By the control plane, as anybody would."""
    for path in (f"namespaces/{NAMESPACE}/", f"namespaces/{NAMESPACE}/topics/{topic}/"):
        body = json.dumps({"tracing": False} if "topics" in path else {}).encode()
        headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{service.conf.api.origin}/api/v1/{path}", body, headers, method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
    time.sleep(SEEN_S)

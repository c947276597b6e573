"""What tracing and metrics cost: the full cycle as it comes, beside a service that does neither.

Both run all the while, and their rounds take turns: an idle one takes a hundredth of a core.
"""

from functools import partial

from bench.control import set_topic
from bench.core import PREFILL, circulate
from bench.rows import Row
from bench.service import Service
from bench.stage import Measure, Stage, play

NAMES = ("overhead",)
TOPIC = "cycle"


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Rounds of both."""
    with Service() as watched, Service(env={"METRICS_COUNTERS": "false"}) as blind:
        set_topic(blind, TOPIC, tracing=False)
        measures = [
            Measure(f"the full cycle, {how}", {"": partial(circulate, service, stage.seconds, TOPIC, PREFILL)})
            for how, service in (("traced and counted", watched), ("neither", blind))
        ]
        ours, against = play(stage, measures)
    return [Row("overhead", ours.title, "messages/s", ours, against, at_least=0.8)]

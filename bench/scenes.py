"""Every scene of the bench: what it finds, and whether the short run plays it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import buffered, churn, core, deep, fairness, latency, many, overhead, scaling
from bench.peers import suite
from bench.rows import Found
from bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene has a service of its own, and finds the rows and curves that are wanted of those that it can find."""

    names: tuple[str, ...]
    play: Callable[[Stage, set[str]], Sequence[Found]]
    when: str  # "quick": always; "full": with --full; "peers": with --peers
    about: str


SCENES = (
    Scene(core.NAMES, core.scene, "quick", "enqueue, dequeue with ack and the full cycle, beside the raw limits"),
    Scene(latency.NAMES, latency.scene, "quick", "how long single messages take"),
    Scene(fairness.QUICK, fairness.scene, "quick", "what a namespace that floods costs its neighbour"),
    Scene(
        fairness.OTHERS, fairness.scene, "full", "the same for floods that a quota refuses, of batches, and unbounded"
    ),
    Scene(deep.NAMES, deep.scene, "full", "two million ready, two million more urgent later, a million dead letters"),
    Scene(many.NAMES, many.scene, "full", "a hundred thousand topics with one message each"),
    *(
        Scene((name,), churn.scene, "full", f"minutes of traffic: {churn.CHURNS[name][0]}")  # each has its own service
        for name in churn.NAMES
    ),
    Scene(buffered.NAMES, buffered.scene, "full", "enqueues to a buffered topic, beside those that commit"),
    Scene(overhead.NAMES, overhead.scene, "full", "what tracing and metrics cost"),
    *(Scene((name,), scaling.scene, "full", scaling.CURVES[name][0]) for name in scaling.NAMES),
    Scene(suite.NAMES, suite.scene, "peers", "other queues on the same servers, and mqueue in the same rounds"),
)


def all_names() -> list[str]:
    """As `--only` takes them."""
    return [name for scene in SCENES for name in scene.names]

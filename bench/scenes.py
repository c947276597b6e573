"""Every scene of the bench: what it finds, and whether the short run plays it."""

from collections.abc import Callable
from dataclasses import dataclass

from bench import core, latency
from bench.rows import Row
from bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene has a service of its own, and finds the rows that are wanted of those that it can find."""

    names: tuple[str, ...]
    play: Callable[[Stage, set[str]], list[Row]]
    quick: bool
    about: str


SCENES = (
    Scene(core.NAMES, core.scene, True, "enqueue, dequeue with ack and the full cycle, beside the raw limits"),
    Scene(latency.NAMES, latency.scene, True, "how long single messages take"),
)


def all_names() -> list[str]:
    """As `--only` takes them."""
    return [name for scene in SCENES for name in scene.names]

"""What events and metrics cost: the full cycle with them, beside the full cycle without."""

from bench.rows import Row
from bench.stage import Stage

NAMES = ("overhead",)


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Nothing, as long as they cannot be turned off: taking them out of the code would measure another product."""
    note = "no switch turns events and metrics off"
    return [Row("overhead", "full cycle with events and metrics / without", "messages/s", at_least=0.8, note=note)]

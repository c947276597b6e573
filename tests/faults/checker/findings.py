"""What a judge has found, in all topics together."""

from collections import Counter
from dataclasses import dataclass, field

SHOWN = 20  # of each rule


@dataclass
class Findings:
    broken: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)  # of deliveries after the first
    again: list[int] = field(default_factory=list)  # when one came that nobody had asked for

    def broke(self, rule: str, words: str) -> None:
        self.counts[f"broken: {rule}"] += 1
        if self.counts[f"broken: {rule}"] <= SHOWN:
            self.broken.append(f"{rule}: {words}")

"""What can go wrong, each by a name."""

from tests.faults.checker.faults import heads, network, postgres, processes, slots, steps
from tests.faults.checker.faults.catalogue import FAULTS, Fault, Hold

__all__ = ["FAULTS", "Fault", "Hold", "heads", "network", "postgres", "processes", "slots", "steps"]

"""Moving slots to another shard while traffic flows. docs/decisions/0017-resharding.md says why it is right."""

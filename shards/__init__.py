"""Where messages live: the slot map, the pools to the shards, and the schema on them."""

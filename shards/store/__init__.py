"""The schema that lives on every shard."""

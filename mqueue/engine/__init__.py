"""The verbs of the queue, each spanning tenants and shards."""

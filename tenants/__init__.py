"""Who uses the queue: namespaces, their topics, and (with time) their keys, quotas and members."""

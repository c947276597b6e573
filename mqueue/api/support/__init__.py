"""The admin's pages on messages: what waits, dead letters, failures, jobs, usage. They call the engine."""

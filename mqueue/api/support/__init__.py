"""The admin's pages on messages: what waits, dead letters, jobs, usage. They call the engine."""

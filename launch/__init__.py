"""Installing, starting and supervising: everything between `make run` and a serving queue."""

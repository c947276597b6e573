"""What Redis holds: disposable, and never the only holder of a message."""

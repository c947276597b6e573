"""What the history pipeline costs, beside the plainest way to do the same: `make bench-pipeline`."""

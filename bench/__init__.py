"""Measurements over real HTTP against real servers, with fsync on. `make bench` runs them."""

"""A small model of docs/protocol.md, and a search through all interleavings of small cases."""

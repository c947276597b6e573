"""mqueue: a multi-tenant, sharded priority message queue on PostgreSQL and Redis."""

__version__ = "0.1.0"

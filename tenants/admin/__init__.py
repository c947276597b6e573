"""The control plane in the Django admin: everybody sees what his role in a namespace shows, and acts are on record."""

from tenants.admin import keys, namespaces, people, topics, trail

__all__ = ["keys", "namespaces", "people", "topics", "trail"]

"""Deleting: the rows stay, since rows on every shard carry a topic's number, and the audit log names a key.

What was set is gone. The next message to a name makes it again, with defaults, as the first one did.
"""

from datetime import datetime

from tenants.models import Key, Member, Namespace, Quota, Topic, TopicSettings


def delete_topic(topic: Topic, at: datetime) -> None:
    TopicSettings.objects.update_or_create(topic=topic, defaults=TopicSettings.cleared() | {"deleted_at": at})


def delete_namespace(namespace: Namespace, at: datetime) -> None:
    """Its keys are refused within a second."""
    topics = Topic.objects.filter(namespace=namespace)
    TopicSettings.objects.filter(topic__in=topics).update(**TopicSettings.cleared() | {"deleted_at": at})
    missing = topics.filter(settings=None)
    TopicSettings.objects.bulk_create([TopicSettings(topic=topic, deleted_at=at) for topic in missing], batch_size=1000)
    Key.objects.filter(namespace=namespace, revoked_at=None).update(revoked_at=at)
    Quota.objects.filter(namespace=namespace).delete()
    Member.objects.filter(namespace=namespace).delete()
    namespace.deleted_at = at
    namespace.save(update_fields=["deleted_at"])

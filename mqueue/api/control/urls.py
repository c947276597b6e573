"""Where each view of the control plane is."""

from django.urls import URLPattern, path

from mqueue.api.control.base import ControlView
from mqueue.api.control.dlq import DeadLettersView
from mqueue.api.control.jobs import JobsView, JobView, PurgeView
from mqueue.api.control.keys import KeysView, KeyView
from mqueue.api.control.members import MembersView, MemberView
from mqueue.api.control.namespaces import NamespacesView, NamespaceView
from mqueue.api.control.quotas import QuotasView
from mqueue.api.control.rollups import FailuresView, UsageHoursView
from mqueue.api.control.topics import TopicsView, TopicView
from mqueue.api.control.trail import AuditView
from mqueue.api.control.usage import UsageView

ROOT = "/api/v1/namespaces/"
HOME = ROOT + "{namespace}/"
VIEWS: dict[str, type[ControlView]] = {
    ROOT: NamespacesView,
    HOME: NamespaceView,
    HOME + "topics/": TopicsView,
    HOME + "topics/{topic}/": TopicView,
    HOME + "topics/{topic}/purge/": PurgeView,
    HOME + "keys/": KeysView,
    HOME + "keys/{kid}/": KeyView,
    HOME + "quotas/": QuotasView,
    HOME + "members/": MembersView,
    HOME + "members/{user}/": MemberView,
    HOME + "audit/": AuditView,
    HOME + "dlq/": DeadLettersView,
    HOME + "jobs/": JobsView,
    HOME + "jobs/{job}/": JobView,
    HOME + "usage/": UsageView,
    HOME + "usage/hours/": UsageHoursView,
    HOME + "failures/": FailuresView,
}


def urls() -> list[URLPattern]:
    return [
        path(at.removeprefix("/").replace("{", "<str:").replace("}", ">"), view.as_view()) for at, view in VIEWS.items()
    ]

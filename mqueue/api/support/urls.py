"""Where each page is, under /admin/."""

from django.contrib import admin
from django.urls import URLPattern, path

from mqueue.api.support.acts import ActOnAllPage, ActPage
from mqueue.api.support.base import SupportView
from mqueue.api.support.failures import FailuresPage
from mqueue.api.support.jobs import JobPage, JobsPage
from mqueue.api.support.letters import LetterPage, LettersPage, PayloadFile
from mqueue.api.support.topics import HomesPage, PausePage, PurgePage, TopicsPage
from mqueue.api.support.usage import UsageOfNamespacePage

app_name = "support"
HOME = "messages/<str:namespace>/"
PAGES: dict[str, tuple[str, type[SupportView]]] = {
    "homes": ("messages/", HomesPage),
    "topics": (HOME, TopicsPage),
    "pause": (HOME + "topics/<str:topic>/pause/", PausePage),
    "purge": (HOME + "topics/<str:topic>/purge/", PurgePage),
    "letters": (HOME + "dlq/", LettersPage),
    "act": (HOME + "dlq/act/", ActPage),
    "act_on_all": (HOME + "dlq/all/", ActOnAllPage),
    "letter": (HOME + "dlq/<str:number>/", LetterPage),
    "payload": (HOME + "dlq/<str:number>/payload/", PayloadFile),
    "jobs": (HOME + "jobs/", JobsPage),
    "job": (HOME + "jobs/<str:number>/", JobPage),
    "failures": (HOME + "failures/", FailuresPage),
    "usage": (HOME + "usage/", UsageOfNamespacePage),
}
urlpatterns: list[URLPattern] = [
    path(at, admin.site.admin_view(page.as_view()), name=name) for name, (at, page) in PAGES.items()
]

"""What Django serves. The data plane is here too, for servers without the fast lane, which comes before Django."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerSplitView

from mqueue.api import views
from mqueue.api.control import urls as control
from mqueue.api.openapi.served import DocumentView
from mqueue.api.support import urls as support
from tenants.admin.login import login
from tenants.admin.people import password_change

urlpatterns = [
    *views.urls(),
    *control.urls(),
    path("", RedirectView.as_view(pattern_name="docs")),
    path("admin/login/", login),
    path("admin/password_change/", admin.site.admin_view(password_change, cacheable=True)),
    path("admin/", include(support)),
    path("admin/", admin.site.urls),
    path("api/schema/", DocumentView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
]
handler400 = "mqueue.api.problems.bad_request"
handler404 = "mqueue.api.problems.not_found"
handler500 = "mqueue.api.problems.server_error"

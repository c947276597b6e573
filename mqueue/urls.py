"""What Django serves: the admin, the control plane and the API's description. The data plane's paths never get here."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="docs")),
    path("admin/", admin.site.urls),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerView.as_view(url_name="schema"), name="docs"),
]
handler404 = "mqueue.api.problems.not_found"
handler500 = "mqueue.api.problems.server_error"

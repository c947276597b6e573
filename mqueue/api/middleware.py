"""Django's middleware, where the data plane asks for something else."""

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware import common
from django.utils.deprecation import MiddlewareMixin

from mqueue.api import plane


class CommonMiddleware(common.CommonMiddleware):
    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        """Names of hosts guard the admin's cookies. The data plane is guarded by tokens, and takes any name."""
        return None if plane.serves(request.path_info) else super().process_request(request)


# Alpine, by which the admin's pages move, evaluates its attributes: hence 'unsafe-eval'. No page has a script in
# itself, so a script that somebody smuggles in does not run.
PAGES = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
OTHERS = "default-src 'none'; frame-ancestors 'none'"


class ContentSecurityPolicy(MiddlewareMixin):
    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = response.get("Content-Type", "").startswith("text/html")
        response.headers.setdefault("Content-Security-Policy", PAGES if is_page else OTHERS)
        return response

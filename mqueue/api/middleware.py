"""Django's middleware, where the data plane asks for something else."""

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.middleware import common

from mqueue.api import plane


class CommonMiddleware(common.CommonMiddleware):
    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        """Names of hosts guard the admin's cookies. The data plane is guarded by tokens, and takes any name."""
        return None if plane.serves(request.path_info) else super().process_request(request)

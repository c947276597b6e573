"""The document as it is served. It says what the code says, so each form of it is made once a process: making one takes
as long as hundreds of requests, and whoever is not known may ask for it."""

import threading
from functools import cache
from typing import Any

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.views import SpectacularAPIView
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

_turn = threading.Lock()  # requests are answered in threads, and the first ones may come together
_forms: dict[tuple[str, int | None], str | bytes] = {}  # few: an indent is 8 at most


class DocumentView(SpectacularAPIView):
    schema = None

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        kind = request.accepted_renderer
        indent = kind.get_indent(request.accepted_media_type, {}) if isinstance(kind, JSONRenderer) else None
        form = str(kind.media_type), indent
        with _turn:
            if form not in _forms:
                _forms[form] = kind.render(_document(), kind.media_type, {"indent": indent})
        content_type = f"{kind.media_type}; charset={kind.charset}" if kind.charset else kind.media_type
        name = f'inline; filename="mqueue.{kind.format}"'
        return HttpResponse(_forms[form], content_type=content_type, headers={"Content-Disposition": name})


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found

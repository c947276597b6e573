"""The admin's login, which bears guessing: see `tenants/throttle.py`."""

import logging
import math

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from tenants.throttle import COOKIE, COOKIE_S, Attempt, cookie_of

log = logging.getLogger(__name__)
PATH = "/admin/login/"


def login(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return admin.site.login(request)
    account, address = account_of(request), request.META.get("REMOTE_ADDR") or ""
    attempt = Attempt(account, address, request.COOKIES.get(COOKIE, ""))
    if wait_s := attempt.begin():
        log.warning("too many logins failed: refused one from %s for %d s", address or "nowhere", wait_s)
        return _refused(request, wait_s)
    answer: HttpResponse = admin.site.login(request)
    if answer.status_code == 302:
        attempt.succeeded()
        answer.set_cookie(
            COOKIE,
            cookie_of(account),
            max_age=COOKIE_S,
            path=PATH,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Strict",
        )
    return answer


def account_of(request: HttpRequest) -> str:
    """As the form reads it: blanks around a name and letters of full width are no other account, and no other count."""
    return str(AuthenticationForm().fields["username"].to_python(request.POST.get("username", "")))


def _refused(request: HttpRequest, wait_s: int) -> HttpResponse:
    shown = {"title": "Too many failed logins", "minutes": math.ceil(wait_s / 60)}
    context = admin.site.each_context(request) | shown
    page = TemplateResponse(request, "admin/tenants/login_refused.html", context, status=429)
    page["Retry-After"] = str(wait_s)
    page["Cache-Control"] = "no-store"
    return page

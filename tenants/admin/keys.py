"""Keys of a namespace's own: made, with the secret on the next page and nowhere else, and revoked."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.admin import helpers
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextareaWidget

from mqueue.core import credentials, public_keys
from mqueue.core.errors import MqueueError
from tenants import access, audit, shapes
from tenants.admin.door import DoorAdmin, VisibleNamespaces, asker
from tenants.keyring import DEFAULT_SCOPES, make_key, revoke_key
from tenants.models import Key
from tenants.rules import ADMIN

SCOPES = [(scope, scope) for scope in credentials.SCOPES]


class KeyForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        choices=SCOPES, initial=DEFAULT_SCOPES[credentials.API_KEY], widget=UnfoldAdminCheckboxSelectMultipleWidget
    )
    public_key = forms.CharField(
        required=False,
        max_length=public_keys.LONGEST,
        widget=UnfoldAdminTextareaWidget,
        help_text="For RS256, ES256 and EdDSA: PEM, or a JWK. The private half stays with you.",
    )

    def clean(self) -> dict[str, Any]:
        """What cannot be a key is said beside the field; what is good is made when it is saved."""
        cleaned = super().clean() or {}
        kind, given = cleaned.get("kind", ""), cleaned.get("public_key")
        if kind in credentials.PUBLIC:
            try:
                public_keys.read(kind, given or "")
            except ValueError as error:
                self.add_error("public_key", str(error))
        elif given:
            self.add_error("public_key", f"has no use for {kind}")
        return cleaned


@admin.register(Key)
class KeyAdmin(DoorAdmin):
    roles: ClassVar[dict[str, str]] = {"view": ADMIN, "add": ADMIN, "revoke": ADMIN}
    form = KeyForm
    fields = ["namespace", "name", "kind", "scopes", "public_key", "expires_at"]
    list_display = ["kid", "name", "namespace", "kind", "granted", "is_live", "last_used_at", "expires_at"]
    list_filter = ["kind", ("revoked_at", admin.EmptyFieldListFilter), ("namespace", VisibleNamespaces)]
    search_fields = ["kid", "name"]
    list_select_related = ["namespace"]
    actions = ["revoke"]

    def get_fields(self, request: HttpRequest, obj: Key | None = None) -> list[str]:
        if obj is None:
            return self.fields
        return ["namespace", "kid", "name", "kind", "granted", "created_at", "created_by", *self._times, "public_half"]

    _times = ("expires_at", "revoked_at", "last_used_at")

    def get_readonly_fields(self, request: HttpRequest, obj: Key | None = None) -> list[str]:
        return self.get_fields(request, obj) if obj else []

    def get_form(self, request: HttpRequest, obj: Key | None = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None:
            kwargs["form"] = forms.ModelForm  # nothing of a key can be changed
        return super().get_form(request, obj, change, **kwargs)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = access.namespaces(asker(request), ADMIN)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return self._may(request, None, "revoke")

    @admin.display(description="scopes")
    def granted(self, key: Key) -> str:
        return ", ".join(key.scopes)

    @admin.display(boolean=True, description="live")
    def is_live(self, key: Key) -> bool:
        return key.revoked_at is None

    @admin.display(description="public key")
    def public_half(self, key: Key) -> str:
        return bytes(key.material).decode() if key.kind in credentials.PUBLIC else ""

    def save_model(self, request: HttpRequest, obj: Key, form: Any, change: bool) -> None:
        audit.take_turn()
        given = form.cleaned_data
        home = access.namespace(asker(request), obj.namespace.name, ADMIN)
        wanted = {name: given[name] for name in ("kind", "name", "scopes", "public_key", "expires_at")}
        made, secret = make_key(asker(request), home, **wanted)
        obj.__dict__.update(made.__dict__)
        request.__dict__["_mqueue_secret"] = secret
        audit.note(asker(request), "key.create", home.name, made.kid, after=shapes.key(made))

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """A rule that only the making knows, as that of the scope `*`, is said on the page."""
        try:
            answer: HttpResponse = super().add_view(request, form_url, extra_context)
        except (MqueueError, ValidationError) as error:
            self.message_user(request, str(error), level="ERROR")
            answer = TemplateResponse(request, "admin/tenants/key_refused.html", self._context(request))
            answer.status_code = getattr(error, "http_status", 400)
        return answer

    def response_add(self, request: HttpRequest, obj: Key, post_url_continue: str | None = None) -> HttpResponse:
        shown = {"key": obj, "secret": request.__dict__.pop("_mqueue_secret"), "title": "The key is made"}
        page = TemplateResponse(request, "admin/tenants/key_made.html", self._context(request) | shown)
        page["Cache-Control"] = "no-store"
        return page

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, keys: "QuerySet[Key]") -> HttpResponse | None:
        live = keys.filter(revoked_at=None)
        if "confirmed" not in request.POST:
            shown = {"keys": live, "title": "Revoke", "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME}
            return TemplateResponse(request, "admin/tenants/keys_revoke.html", self._context(request) | shown)
        with audit.changing():
            for key in live:
                found = access.key(asker(request), key.namespace.name, key.kid)
                before = shapes.key(found)
                revoke_key(found)
                audit.note(
                    asker(request), "key.revoke", key.namespace.name, key.kid, before=before, after=shapes.key(found)
                )
        self.message_user(request, "They are refused everywhere within two seconds.")
        return None

    def _context(self, request: HttpRequest) -> dict[str, Any]:
        return {**self.admin_site.each_context(request), "opts": self.opts}

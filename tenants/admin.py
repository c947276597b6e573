"""The control plane in the Django admin."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as PlainGroupAdmin
from django.contrib.auth.admin import UserAdmin as PlainUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from tenants.models import Namespace, Topic

admin.site.unregister([User, Group])


@admin.register(User)
class UserAdmin(PlainUserAdmin, ModelAdmin):  # type: ignore[misc,type-arg]
    form, add_form, change_password_form = UserChangeForm, UserCreationForm, AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(PlainGroupAdmin, ModelAdmin):  # type: ignore[misc]
    pass


@admin.register(Namespace)
class NamespaceAdmin(ModelAdmin):  # type: ignore[misc]
    list_display = ["name", "created_at"]
    search_fields = ["name"]

    def get_readonly_fields(self, request: HttpRequest, obj: Namespace | None = None) -> list[str]:
        return ["name"] if obj else []


@admin.register(Topic)
class TopicAdmin(ModelAdmin):  # type: ignore[misc]
    """Topics are made by their first message; a name is part of the routing and cannot change."""

    list_display = ["name", "namespace", "created_at"]
    list_filter = ["namespace"]
    search_fields = ["name"]

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Topic]":
        topics: QuerySet[Topic] = super().get_queryset(request)
        return topics.select_related("namespace")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Topic | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Topic | None = None) -> bool:
        return False

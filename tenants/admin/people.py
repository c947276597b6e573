"""Accounts: Django's own, which a superuser looks after. What they may do in a namespace is its members' business."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as PlainGroupAdmin
from django.contrib.auth.admin import UserAdmin as PlainUserAdmin
from django.contrib.auth.models import Group, User
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

admin.site.unregister([User, Group])


@admin.register(User)
class UserAdmin(PlainUserAdmin, ModelAdmin):  # type: ignore[misc,type-arg]
    form, add_form, change_password_form = UserChangeForm, UserCreationForm, AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(PlainGroupAdmin, ModelAdmin):  # type: ignore[misc]
    pass

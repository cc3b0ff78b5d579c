"""Operators: the console's users, each with one role. Only administrators see and change them."""

from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model as DjangoModel
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminSelectWidget

from controlplane.auth.management.commands.bootstrap import ADMIN
from controlplane.auth.roles import Role, role_of
from controlplane.console.access import may
from controlplane.console.models import Operator
from controlplane.console.records import is_offered
from controlplane.core import clock
from controlplane.observability import events

ROLE_CHOICES = [
    (Role.VIEWER.group, "Viewer: reads everything"),
    (Role.OPERATOR.group, "Operator: also changes endpoints, marks and requests"),
    (Role.ADMINISTRATOR.group, "Administrator: also keys, capacity and operators"),
]


def role_field() -> forms.ChoiceField:
    """The one role of an operator."""
    return forms.ChoiceField(
        choices=ROLE_CHOICES, widget=UnfoldAdminSelectWidget, help_text="Each role may do what those before it may."
    )


class OperatorForm(UserChangeForm):
    """An operator's name, role and whether they may log in."""

    role = role_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        held = role_of(self.instance) if self.instance.pk else None
        self.fields["role"].initial = (held or Role.VIEWER).group


class NewOperatorForm(UserCreationForm):
    """A new operator: name, password and role."""

    role = role_field()


class OperatorAdmin(UserAdmin, ModelAdmin):
    """Django's users without its permissions: the role says it all."""

    form = OperatorForm
    add_form = NewOperatorForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "role", "email", "is_active", "last_login")
    list_filter = ("is_active",)
    search_fields = ("username", "email")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("username", "password", "role", "is_active")}),
        ("Contact", {"fields": ("first_name", "last_name", "email")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = ((None, {"fields": ("username", "role", "password1", "password2")}),)
    actions = None

    @admin.display(description="role")
    def role(self, user: Operator) -> str:
        """The word for what they may do."""
        if not user.is_active or not user.is_staff:
            return "cannot log in"
        held = {group.name for group in user.groups.all()}  # fetched with the list
        groups = [role.group for role in sorted(Role, reverse=True) if role.group in held or user.is_superuser]
        return groups[0].capitalize() if groups else "no role: cannot log in"

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return is_offered(self, lookup, value)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("groups")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may(request, Role.ADMINISTRATOR)

    def has_view_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return may(request, Role.ADMINISTRATOR)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may(request, Role.ADMINISTRATOR)

    def has_change_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return may(request, Role.ADMINISTRATOR)

    def has_delete_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        """Nobody deletes themselves, so that an installation keeps an administrator."""
        return may(request, Role.ADMINISTRATOR) and obj != request.user

    def save_model(self, request: HttpRequest, obj: Operator, form: forms.ModelForm, change: bool) -> None:
        """Who has a role is staff; one's own role and access stay, for the same reason."""
        obj.is_staff = True
        if obj == request.user and change:
            obj.is_active = True
        elif "role" in form.cleaned_data:
            obj.is_superuser = obj.is_superuser and form.cleaned_data["role"] == Role.ADMINISTRATOR.group
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        chosen = form.cleaned_data.get("role")
        if chosen is None:
            return
        if form.instance == request.user and chosen != role_of(request.user).group:
            messages.warning(request, "Your own role stays as it is: another administrator can change it.")
            return
        form.instance.groups.set([Group.objects.get_or_create(name=chosen)[0]])
        _tell(form.instance, chosen, change)

    def user_change_password(self, request: HttpRequest, **named: Any) -> HttpResponse:
        """Whoever sets another's password may become them, so that it is told as a change of roles is."""
        with transaction.atomic():
            answer: HttpResponse = super().user_change_password(request, **named)
            if request.method == "POST" and answer.status_code == 302:
                tell_password(request, self.get_object(request, named["id"]))
        return answer

    def delete_model(self, request: HttpRequest, obj: Operator) -> None:
        subject = _subject(obj)
        super().delete_model(request, obj)
        events.record(subject, "OperatorDeleted", f"Operator {subject.name} is deleted.", now=clock.now())


def _tell(operator: Operator, role: str, is_old: bool) -> None:
    """Who may do what is an event like any other."""
    may_enter = "" if operator.is_active else ", and may not log in"
    sentence = f"Operator {operator} {'is' if is_old else 'is made, with the role'} {role}{may_enter}."
    events.record(_subject(operator), "OperatorChanged" if is_old else "OperatorCreated", sentence, now=clock.now())


def tell_password(request: HttpRequest, operator: Any) -> None:
    """Whose password is another one now; who set it is the event's actor. Warns where it will not stay."""
    sentence = f"The password of operator {operator} is set anew."
    events.record(_subject(operator), "OperatorPasswordSet", sentence, now=clock.now())
    if operator.get_username() == ADMIN and settings.HEADRACE.admin_password:
        messages.warning(request, "The next start sets it to HEADRACE_ADMIN_PASSWORD again: change that, too.")


def _subject(operator: Any) -> events.Subject:
    return events.Subject(settings.HEADRACE.account_id, "operator", UUID(int=operator.pk), operator.get_username()[:63])


# Django's own pages of users and groups would be a second door, with permissions that mean nothing here.
for model in (Group, User):
    if admin.site.is_registered(model):
        admin.site.unregister(model)
admin.site.register(Operator, OperatorAdmin)

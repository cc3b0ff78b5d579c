"""The rows behind the pages, every noun read-only. Changes go through services, so that no form can revert live state.

Lists of what may have a million rows are never counted: their pages say only whether there is another.
"""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Model as DjangoModel
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator

from controlplane.catalog.models import EndpointConfig, Model
from controlplane.console import places
from controlplane.console.access import role_in
from controlplane.console.masking import pretty
from controlplane.core import clock
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.fleet.models import CapacityMark, Instance, LaunchAttempt
from controlplane.fleet.overdue import is_overdue
from controlplane.invocations.models import AsyncInvocation
from controlplane.metrics.models import MetricAlarm
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan

BEGINNING = "How its name begins"


def is_offered(rows: ModelAdmin, lookup: str, value: str) -> bool:
    """Whether a list may be asked to filter so: only as its own filters do.

    Django would take any lookup of any column. What a page hides (the values of environments) could then be found out
    letter by letter, and a pattern of the asker's would be run by the database. No column holds a NUL.
    """
    column, _, kind = lookup.partition("__")
    return column in rows.list_filter and kind in ("", "exact", "isnull") and "\x00" not in str(value)


class ReadOnly(ModelAdmin):
    """A list and a page for each row, with nothing to save or delete."""

    actions = None
    list_per_page = 50
    show_full_result_count = False
    list_fullwidth = True

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return is_offered(self, lookup, value)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = str(self.opts.verbose_name_plural).capitalize()
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def has_module_permission(self, request: HttpRequest) -> bool:
        return role_in(request) is not None

    def has_view_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return role_in(request) is not None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return False


class Uncounted(ReadOnly):
    """A list that is never counted, in the order of an index."""

    paginator = InfinitePaginator


@admin.display(description="endpoint")
def endpoint(row: EndpointVariant | Instance | LaunchAttempt) -> SafeString | str:
    """Its endpoint, and the way to the page that tells of it."""
    return _linked(row.endpoint.account_id, row.endpoint.name)


@admin.display(description="console")
def own_page(row: Endpoint) -> SafeString | str:
    """The way to the endpoint's page."""
    return _linked(row.account_id, row.name)


def _linked(account_id: str, name: str) -> SafeString | str:
    link = places.endpoint(account_id, name)
    return format_html('<a class="text-primary-600 dark:text-primary-500" href="{}">{}</a>', link, name) if link else name


class OfEndpoint(Uncounted):
    """Rows that belong to an endpoint."""

    list_select_related = ("endpoint",)
    exclude = ("endpoint",)
    readonly_fields = (endpoint,)

    def get_fields(self, request: HttpRequest, obj: DjangoModel | None = None) -> Sequence[Any]:
        """The endpoint comes first, as it does among the columns."""
        return [endpoint, *(name for name in super().get_fields(request, obj) if name is not endpoint)]


class Requested(ReadOnly):
    """A resource with the request that made it, whose environments are hidden."""

    exclude = ("request",)
    readonly_fields = ("as_requested",)
    list_display = ("name", "account", "created_at")
    search_fields = ("name__istartswith",)
    search_help_text = BEGINNING
    ordering = ("name",)

    @admin.display(description="Request")
    def as_requested(self, row: Model | EndpointConfig) -> SafeString:
        """The request as it was accepted."""
        return format_html('<pre class="hr-mono hr-wrap">{}</pre>', pretty(row.request))


@admin.display(description="stage", ordering="stage")
def stage(instance: Instance) -> str:
    """Its stage; an end that was asked for so long ago that somebody should look is called overdue."""
    late = is_overdue(instance.stage, instance.stage_since, clock.now())
    return f"{instance.stage}, overdue" if late else str(instance.stage)


def _columns(base: type[ReadOnly], **options: Any) -> type[ReadOnly]:
    return type("Rows", (base,), options)


SHOWN: dict[type[DjangoModel], type[ReadOnly]] = {
    Model: Requested,
    EndpointConfig: Requested,
    Endpoint: _columns(
        ReadOnly,
        list_display=("name", "account", "phase", "why", "modified_at"),
        list_filter=("phase",),
        search_fields=("name__istartswith",),
        search_help_text=BEGINNING,
        readonly_fields=(own_page,),
        ordering=("name",),
    ),
    EndpointVariant: _columns(
        OfEndpoint,
        list_display=("name", endpoint, "current_count", "desired_count", "current_weight"),
        ordering=("-id",),
    ),
    Instance: _columns(
        OfEndpoint,
        list_display=("instance_type", "zone", stage, endpoint, "reason", "stage_since"),
        list_filter=("stage",),
        search_fields=("provider_id__exact", "endpoint__name__exact", "instance_type__exact"),
        search_help_text="Provider's id, endpoint or type, in full",
        ordering=("-launched_at",),
    ),
    LaunchAttempt: _columns(
        OfEndpoint,
        list_display=("instance_type", "zone", "stage", endpoint, "error_kind", "message", "called_at"),
        list_filter=("stage",),
        search_fields=("token__exact", "endpoint__name__exact", "instance_type__exact"),
        search_help_text="Token, endpoint or type, in full",
        ordering=("-called_at",),
    ),
    CapacityMark: _columns(ReadOnly, list_display=("instance_type", "zone", "kind", "until", "seen_by")),
    AsyncInvocation: _columns(
        Uncounted,
        list_display=("inference_id", "endpoint_name", "state", "attempts", "accepted_at"),
        ordering=("-id",),
    ),
    MetricAlarm: _columns(
        ReadOnly,
        list_display=("name", "account_id", "state", "reason", "state_since"),
        list_filter=("state",),
        ordering=("name",),
    ),
    Orphan: _columns(
        ReadOnly, list_display=("instance_type", "provider_id", "zone", "launched_at", "endpoint_name", "state", "reason")
    ),
    Event: _columns(Uncounted, list_display=("at", "subject_name", "reason", "sentence", "actor"), ordering=("-id",)),
}

for model, rows in SHOWN.items():
    admin.site.register(model, rows)

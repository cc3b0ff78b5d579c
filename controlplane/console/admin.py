"""What operators see: every noun, read-only. Changes go through the API, so that no form can revert live state."""

from django.contrib import admin
from django.db.models import Model as DjangoModel
from django.http import HttpRequest

from controlplane.catalog.models import EndpointConfig, Model
from controlplane.core import clock
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.fleet.models import CapacityMark, Instance, LaunchAttempt
from controlplane.fleet.overdue import is_overdue
from controlplane.invocations.models import AsyncInvocation
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan


class ReadOnly(admin.ModelAdmin):
    """A list and a page for each row, with nothing to save or delete."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return False


@admin.display(description="overdue", boolean=True)
def end_is_overdue(instance: Instance) -> bool:
    """Whether its end was asked for so long ago that somebody should look."""
    return is_overdue(instance.stage, instance.stage_since, clock.now())


SHOWN = {
    Model: ("name", "account", "created_at"),
    EndpointConfig: ("name", "account", "created_at"),
    Endpoint: ("name", "phase", "why", "modified_at"),
    EndpointVariant: ("endpoint", "name", "current_count", "desired_count", "current_weight"),
    Instance: ("instance_type", "stage", end_is_overdue, "endpoint", "reason", "stage_since"),
    LaunchAttempt: ("instance_type", "stage", "endpoint", "error_kind", "message", "called_at"),
    CapacityMark: ("instance_type", "zone", "kind", "until", "seen_by"),
    AsyncInvocation: ("inference_id", "endpoint_name", "state", "attempts", "accepted_at"),
    Orphan: ("instance_type", "provider_id", "zone", "launched_at", "endpoint_name", "hourly_price", "state", "reason"),
    Event: ("at", "subject_name", "reason", "sentence"),
}

for model, columns in SHOWN.items():
    admin.site.register(model, type(f"{model.__name__}Admin", (ReadOnly,), {"list_display": columns}))

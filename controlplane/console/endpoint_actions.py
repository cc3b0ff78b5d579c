"""What an operator may do to an endpoint; each action calls the service that the API calls."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.db.models import Count
from django.urls import reverse

from controlplane.console import actions_seen as seen
from controlplane.console import endpoint_words as words
from controlplane.console.actions import Action
from controlplane.console.endpoint_facts import of_endpoint
from controlplane.core import clock
from controlplane.core.errors import ResourceNotFound
from controlplane.core.ids import Arn
from controlplane.core.words import counted
from controlplane.endpoints import homing, services
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.selectors import variants_in_service
from controlplane.endpoints.wishes import locked
from controlplane.fleet.models import Instance
from controlplane.fleet.states import LIVE_STAGES
from controlplane.invocations.backlog import Queued, queued_at

COUNT_LIMIT = 10_000


class OfEndpoint(Action):
    """An action on one endpoint of one account."""

    def __init__(self, account_id: str, name: str) -> None:
        self.arn = Arn(settings.HEADRACE.region, account_id, "endpoint", name)
        self.back = reverse("admin:endpoint", args=(account_id, name))

    def endpoint(self, *, is_locked: bool = False) -> Endpoint:
        """The endpoint as it is now; raises ResourceNotFound when it is gone."""
        found = locked(self.arn) if is_locked else self.found()
        if found is None:
            raise ResourceNotFound(f"There is no endpoint {self.arn.name} any more.")
        return found

    def found(self) -> Endpoint | None:
        """The endpoint as it is now, None when it is gone."""
        return Endpoint.objects.filter(account_id=self.arn.account_id, name=self.arn.name).first()

    def facts(self, *, is_locked: bool) -> seen.Facts:
        return of_endpoint(self.endpoint(is_locked=is_locked))


class Scale(OfEndpoint):
    """Other numbers of instances."""

    button = "Scale"
    member, prefix = "DesiredInstanceCount", "count-"

    @property
    def title(self) -> str:
        return f"Scale {self.arn.name}"

    def consequences(self) -> Sequence[str]:
        least = "" if self.endpoint().is_async else " A real-time endpoint keeps at least one."
        return (
            "More: the search begins at the most wanted type and walks down the pools.",
            f"Fewer: fallbacks go first, and calls under way may end.{least}",
        )

    def form(self, data: Any = None) -> forms.Form:
        form = forms.Form(data)
        for variant in self._variants():
            form.fields[f"{self.prefix}{variant.name}"] = self._field(variant)
        return form

    def _variants(self) -> list[EndpointVariant]:
        found = self.found()
        return list(variants_in_service(found)) if found else []

    def _field(self, variant: EndpointVariant) -> forms.Field:
        return forms.IntegerField(
            min_value=0,
            max_value=COUNT_LIMIT,
            initial=variant.desired_count,
            label=f"Instances of variant {variant.name}",
            help_text=f"{variant.current_count} of {variant.desired_count} serve now.",
        )

    def _present(self, variant: EndpointVariant) -> float:
        return variant.desired_count

    def do(self, chosen: dict[str, Any]) -> str:
        """Only what differs is asked for, so that nothing else is touched."""
        rows = self._variants()
        wishes = {row.name: chosen[f"{self.prefix}{row.name}"] for row in rows}
        present = {row.name: self._present(row) for row in rows}
        changes = [{"VariantName": name, self.member: value} for name, value in wishes.items() if value != present[name]]
        if not changes:
            return f"Nothing to do: {self.arn.name} is wanted just so."
        services.update_weights_and_capacities(arn=self.arn, changes=changes, now=clock.now())
        told = (f"{name}: {present[name]:g} → {wishes[name]:g}" for name in wishes if wishes[name] != present[name])
        return f"{self.arn.name} is being changed. {', '.join(told)}."


class Weigh(Scale):
    """Other shares of the calls."""

    button = "Set weights"
    member, prefix = "DesiredWeight", "weight-"

    @property
    def title(self) -> str:
        return f"Weights of {self.arn.name}"

    def consequences(self) -> Sequence[str]:
        return ("A variant's share of the calls is its weight over the sum of all weights.",)

    def _field(self, variant: EndpointVariant) -> forms.Field:
        return forms.FloatField(
            min_value=0,
            max_value=1e6,
            initial=variant.desired_weight,
            label=f"Weight of variant {variant.name}",
            help_text=f"{variant.current_weight:g} now." if variant.current_weight != variant.desired_weight else "",
        )

    def _present(self, variant: EndpointVariant) -> float:
        return variant.desired_weight


class Delete(OfEndpoint):
    """The end of an endpoint."""

    button = "Delete the endpoint"
    is_dangerous = True

    @property
    def title(self) -> str:
        return f"Delete {self.arn.name}?"

    def consequences(self) -> Sequence[str]:
        return consequences_of_deleting(self.endpoint())

    def do(self, chosen: dict[str, Any]) -> str:
        services.delete_endpoint(arn=self.arn, now=clock.now())
        return f"{self.arn.name} is being deleted: its instances are ended first."


def consequences_of_deleting(endpoint: Endpoint) -> list[str]:
    """What goes with an endpoint."""
    live = Instance.objects.filter(endpoint=endpoint, stage__in=LIVE_STAGES).order_by("instance_type")
    kinds = dict(live.values_list("instance_type").annotate(Count("id")))
    count = sum(kinds.values())
    told = [f"{counted(count, 'instance')} will be ended: {words.fleet(kinds)}." if count else "No instance runs."]
    told.append("Calls to it are refused from now on; those under way are cut off when their instance ends.")
    if endpoint.is_async:
        queued = queued_at([endpoint.id]).get(endpoint.id, Queued())
        told.append(f"{queued} queued request{'' if str(queued) == '1' else 's'} will fail as endpoint_deleted.")
    told.append("Its configuration and models stay. What happened to it can still be read. There is no way back.")
    return told


class PauseHome(OfEndpoint):
    """No coming-home moves for a while."""

    button = "Pause coming home"

    @property
    def title(self) -> str:
        return f"Pause coming home of {self.arn.name}?"

    def consequences(self) -> Sequence[str]:
        return (
            "No fallback is replaced by a more wanted type until somebody resumes it.",
            "A move that is under way goes on to its end. Scaling and healing go on as ever.",
        )

    def do(self, chosen: dict[str, Any]) -> str:
        homing.pause(arn=self.arn, now=clock.now())
        return f"Coming home of {self.arn.name} is paused."


class ResumeHome(OfEndpoint):
    """Coming-home moves again."""

    button = "Resume coming home"

    @property
    def title(self) -> str:
        return f"Resume coming home of {self.arn.name}?"

    def consequences(self) -> Sequence[str]:
        return ("Fallbacks are replaced again, one at a time, once a more wanted type has been open for long enough.",)

    def do(self, chosen: dict[str, Any]) -> str:
        homing.resume(arn=self.arn, now=clock.now())
        return f"{self.arn.name} comes home again."


BY_NAME: Mapping[str, type[OfEndpoint]] = {
    "scale": Scale,
    "weights": Weigh,
    "delete": Delete,
    "pause-coming-home": PauseHome,
    "resume-coming-home": ResumeHome,
}
"""Actions on an endpoint, by their place in the address."""

"""What an operator may do to one instance of an endpoint, and to the capacity marks that keep it waiting."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from controlplane.console import actions_seen as seen
from controlplane.console.actions import Action
from controlplane.console.endpoint_actions import OfEndpoint
from controlplane.console.endpoint_facts import of_instance, of_mark
from controlplane.core import clock
from controlplane.core.errors import ResourceNotFound
from controlplane.core.words import counted
from controlplane.endpoints.models import Endpoint
from controlplane.fleet import leaving, marks
from controlplane.fleet.in_flight import calls_at
from controlplane.fleet.models import CapacityMark, Instance
from controlplane.fleet.states import LIVE_STAGES, InstanceStage


class OfInstance(OfEndpoint):
    """An action on one instance."""

    is_dangerous = True

    def __init__(self, account_id: str, name: str, instance_id: UUID) -> None:
        super().__init__(account_id, name)
        self.instance_id = instance_id

    def facts(self, *, is_locked: bool) -> seen.Facts:
        """Those of the instance; the lock is its endpoint's, which whoever moves an instance takes first."""
        return of_instance(self.instance(self.endpoint(is_locked=is_locked)))

    def instance(self, endpoint: Endpoint) -> Instance:
        """The instance while it is live; raises ResourceNotFound."""
        row = Instance.objects.filter(endpoint=endpoint, pk=self.instance_id, stage__in=LIVE_STAGES).first()
        if row is None:
            raise ResourceNotFound(f"Instance {str(self.instance_id)[:8]} is gone.")
        return row

    def _calls(self, row: Instance) -> str:
        calls = calls_at([row], clock.now()).get(row.id, 0)
        if not calls:
            return "No call is under way there."
        return f"{counted(calls, 'call')} under way there may end first, for 61 min at most."

    def _rest(self, row: Instance) -> str:
        variant = row.variant
        others = Instance.objects.filter(variant=variant, stage=InstanceStage.READY).exclude(pk=row.pk).count()
        return f"{others} of {counted(variant.desired_count, 'wanted instance')} of variant {variant.name} serve without it"


class Drain(OfInstance):
    """An instance goes at once."""

    button = "Drain it now"

    @property
    def title(self) -> str:
        return f"Drain instance {str(self.instance_id)[:8]} of {self.arn.name}?"

    def consequences(self) -> Sequence[str]:
        row = self.instance(self.endpoint())
        return (
            f"{row.instance_type} gets no new calls from now on. {self._calls(row)}",
            f"{self._rest(row)}, until a replacement has started.",
            "The search for the replacement begins at the most wanted type that is open.",
        )

    def do(self, chosen: dict[str, Any]) -> str:
        row = leaving.drain(arn=self.arn, instance_id=self.instance_id, now=clock.now())
        return f"{row.instance_type} {str(row.id)[:8]} is being drained."


class Replace(OfInstance):
    """An instance goes once another serves."""

    is_dangerous = False
    button = "Replace it"

    @property
    def title(self) -> str:
        return f"Replace instance {str(self.instance_id)[:8]} of {self.arn.name}?"

    def consequences(self) -> Sequence[str]:
        row = self.instance(self.endpoint())
        return (
            "Another instance is launched first, by the order of the pools. Both cost meanwhile.",
            f"Once it serves, {row.instance_type} is drained. {self._calls(row)}",
            "While there is no capacity for another one, this one goes on serving.",
        )

    def do(self, chosen: dict[str, Any]) -> str:
        row = leaving.replace(arn=self.arn, instance_id=self.instance_id, now=clock.now())
        return f"{row.instance_type} {str(row.id)[:8]} is being replaced: it goes once another one serves."


class ClearMark(Action):
    """A remembered refusal is forgotten."""

    button = "Clear the mark"

    def __init__(self, account_id: str, mark_id: int, back: str) -> None:
        self.account_id, self.mark_id, self.back = account_id, mark_id, back

    @property
    def title(self) -> str:
        return "Clear this capacity mark?"

    def mark(self, *, is_locked: bool = False) -> CapacityMark:
        """The mark; raises ResourceNotFound when it has gone by itself."""
        rows = CapacityMark.objects.select_for_update() if is_locked else CapacityMark.objects.all()
        row = rows.filter(pk=self.mark_id).first()
        if row is None:
            raise ResourceNotFound("The mark is gone: a launch has succeeded there, or somebody cleared it.")
        return row

    def facts(self, *, is_locked: bool) -> seen.Facts:
        return of_mark(self.mark(is_locked=is_locked))

    def consequences(self) -> Sequence[str]:
        row = self.mark()
        return (
            f"{row.instance_type} in {row.zone} ({row.market}) was refused: {row.kind}. {row.message}",
            f"It is skipped until {row.until:%H:%M:%S} UTC; cleared, the next search of any endpoint asks it again.",
            "If it is still out of reach, it is marked again by the first that asks.",
        )

    def do(self, chosen: dict[str, Any]) -> str:
        row = self.mark()
        marks.forget(self.account_id, self.mark_id, clock.now())
        return f"The mark on {row.instance_type} in {row.zone} is cleared."


OF_INSTANCE: Mapping[str, type[OfInstance]] = {"drain": Drain, "replace": Replace}
"""Actions on an instance, by their place in the address."""

"""What an operator may do to asynchronous requests: put one or a class back, cancel one."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.urls import reverse

from controlplane.console import actions_seen as seen
from controlplane.console.actions import Action
from controlplane.console.endpoint_facts import of_request
from controlplane.console.requests_page import KINDS
from controlplane.core import actor, clock
from controlplane.core.errors import ResourceNotFound
from controlplane.core.words import counted
from controlplane.invocations import services
from controlplane.invocations.models import AsyncInvocation, FailureKind, InvocationState
from controlplane.invocations.search import DEAD_STATES, Filter


class OfRequest(Action):
    """An action on one request."""

    def __init__(self, request_id: UUID) -> None:
        self.request_id = request_id
        self.back = reverse("admin:request", args=(request_id,))

    def row(self, *, is_locked: bool = False) -> AsyncInvocation:
        """The request as it is now; raises ResourceNotFound when retention has deleted it."""
        rows = AsyncInvocation.objects.select_for_update() if is_locked else AsyncInvocation.objects.all()
        found = rows.filter(pk=self.request_id).first()
        if found is None:
            raise ResourceNotFound(f"There is no request {self.request_id} any more.")
        return found

    def facts(self, *, is_locked: bool) -> seen.Facts:
        return of_request(self.row(is_locked=is_locked))


class TimeToLive(forms.Form):
    """How long a request that is put back may wait."""

    time_to_live = forms.IntegerField(
        label="Seconds it may wait in the queue",
        required=False,
        min_value=services.TIME_TO_LIVE_SECONDS[0],
        max_value=services.TIME_TO_LIVE_SECONDS[1],
        help_text="Left empty: as long as at first.",
    )


class Redrive(OfRequest):
    """A dead letter goes back into the queue."""

    title = "Put this request back into the queue?"
    button = "Put it back"

    def consequences(self) -> Sequence[str]:
        row = self.row()
        return (
            f"It {row.state}: {KINDS.get(row.failure_kind, row.failure_kind) or 'for a reason unknown'}.",
            "Its old failure object is removed first; then it waits for an instance as if it were new, with new attempts.",
            f"Its answer goes to {row.output_location}.",
        )

    def form(self, data: Any = None) -> forms.Form:
        return TimeToLive(data)

    def do(self, chosen: dict[str, Any]) -> str:
        services.redrive(
            self.row().account_id, self.request_id, actor=actor.current(), now=clock.now(), time_to_live=_seconds(chosen)
        )
        return "The request goes back into the queue."


class Cancel(OfRequest):
    """A request that waits or runs is given up."""

    title = "Cancel this request?"
    button = "Cancel it"
    is_dangerous = True

    def consequences(self) -> Sequence[str]:
        row = self.row()
        runs = row.state == InvocationState.RUNNING
        return (
            "The call to the model is broken off, and its answer dropped." if runs else "No model is asked for it.",
            "It ends as cancelled, told at its failure location and to its error topic. Its payload is deleted.",
            "There is no way back.",
        )

    def do(self, chosen: dict[str, Any]) -> str:
        services.cancel(self.row().account_id, self.request_id, actor=actor.current(), now=clock.now())
        return "The request is cancelled."


class RedriveClass(Action):
    """Dead letters of one class go back, the oldest first."""

    button = "Put them back"

    def __init__(self, account_id: str, endpoint_name: str, state: str, kind: str) -> None:
        self.which = Filter(
            account_id,
            endpoint_name,
            (state,) if state in DEAD_STATES else DEAD_STATES,
            (kind,) if kind in FailureKind.values else (),
        )
        self.back = f"{reverse('admin:dead_letters')}?account={account_id}&endpoint={endpoint_name}"

    @property
    def title(self) -> str:
        return f"Put failed requests of {self.which.endpoint_name} back?"

    def facts(self, *, is_locked: bool) -> seen.Facts:
        """None: whatever is dead by now is what is meant, each by its own lock."""
        return {}

    def consequences(self) -> Sequence[str]:
        tried = services.redrive_class(
            self.which, limit=services.REDRIVE_LIMIT, actor=actor.current(), now=clock.now(), dry_run=True
        )
        kinds = ", ".join(KINDS[kind] for kind in self.which.failure_kinds) or "of any kind"
        told = [f"{counted(tried.matching, 'request')} {' or '.join(self.which.states)}: {kinds}."]
        if tried.skipped:
            told.append(f"{tried.skipped:,} of them cannot: of an earlier endpoint of the name, or without their payload.")
        told.append(f"{counted(tried.redriven, 'request')} would go back now, the oldest first, with new attempts.")
        if tried.redriven >= services.REDRIVE_LIMIT:
            told.append(f"At most {services.REDRIVE_LIMIT:,} at a time; come back for the rest.")
        return told

    def form(self, data: Any = None) -> forms.Form:
        form = TimeToLive(data)
        form.fields["limit"] = forms.IntegerField(
            label="How many at most", min_value=1, max_value=services.REDRIVE_LIMIT, initial=services.REDRIVE_DEFAULT
        )
        return form

    def do(self, chosen: dict[str, Any]) -> str:
        done = services.redrive_class(
            self.which,
            limit=chosen["limit"],
            actor=actor.current(),
            now=clock.now(),
            time_to_live=_seconds(chosen),
        )
        left = done.matching - done.redriven
        rest = f" Left: {left:,}." if left else ""
        return f"{counted(done.redriven, 'request')} of {done.matching:,} went back into the queue.{rest}"


def _seconds(chosen: dict[str, Any]) -> timedelta | None:
    seconds = chosen.get("time_to_live")
    return timedelta(seconds=seconds) if seconds else None


ACTIONS: dict[str, type[OfRequest]] = {"redrive": Redrive, "cancel": Cancel}
"""Actions on a request, by their place in the address."""

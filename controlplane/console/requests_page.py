"""What the pages of asynchronous requests show: searches, one request's story, dead letters by class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.conf import settings

from controlplane.auth.models import Account
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.states import Phase
from controlplane.invocations import timeline
from controlplane.invocations.models import DEAD, AsyncInvocation, AsyncPayload, FailureKind, InvocationState
from controlplane.invocations.search import DEAD_STATES, ClassCount, Filter, Page, counts, find
from controlplane.invocations.timeline import Told

PAGE = 50

TONES = {
    InvocationState.QUEUED: "idle",
    InvocationState.RUNNING: "busy",
    InvocationState.COMPLETED: "good",
    InvocationState.FAILED: "bad",
    InvocationState.EXPIRED: "warn",
    InvocationState.CANCELLED: "idle",
    InvocationState.REDRIVING: "busy",
}

KINDS = {
    "": "no kind",
    FailureKind.MODEL_CLIENT_ERROR: "the model refused it (4xx)",
    FailureKind.MODEL_SERVER_ERROR: "the model failed (5xx)",
    FailureKind.NO_ANSWER: "no answer from the instance",
    FailureKind.TIMEOUT: "the model took too long",
    FailureKind.INPUT_MISSING: "its input is missing",
    FailureKind.INPUT_REFUSED: "its input may not be read",
    FailureKind.INPUT_TOO_LARGE: "its input is too large",
    FailureKind.OUTPUT_STORE: "the answer could not be stored",
    FailureKind.EXPIRED: "waited too long",
    FailureKind.ENDPOINT_DELETED: "the endpoint was deleted",
    FailureKind.ABANDONED: "given up after its attempts",
    FailureKind.CANCELLED: "cancelled",
}
"""Failure kind -> what it says to an operator."""

_OPEN = (InvocationState.QUEUED, InvocationState.RUNNING, InvocationState.REDRIVING)


class SearchForm(forms.Form):
    """What is looked for; everything may be left out but the account."""

    account = forms.ChoiceField(label="Account", required=False)
    endpoint = forms.CharField(label="Endpoint", required=False, max_length=63)
    state = forms.ChoiceField(
        label="State", required=False, choices=[("", "any"), ("dead", "failed or expired"), *InvocationState.choices]
    )
    kind = forms.ChoiceField(
        label="Kind of failure", required=False, choices=[("", "any"), *((kind, KINDS[kind]) for kind in FailureKind)]
    )
    inference_id = forms.CharField(label="Inference id", required=False, max_length=64)
    after = forms.DateTimeField(
        label="Accepted after, UTC", required=False, widget=forms.DateTimeInput({"type": "datetime-local"})
    )
    before = forms.DateTimeField(
        label="Accepted before, UTC", required=False, widget=forms.DateTimeInput({"type": "datetime-local"})
    )

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        names = accounts()
        self.fields["account"].choices = [(name, name) for name in names]
        if len(names) < 2:
            self.fields["account"].widget = forms.HiddenInput()

    def which(self) -> Filter:
        """The filter that was asked for; what cannot be understood is left out, and the form says so."""
        given = self.cleaned_data if self.is_valid() or hasattr(self, "cleaned_data") else {}
        state = given.get("state", "")
        states = DEAD_STATES if state == "dead" else (state,) if state else ()
        return Filter(
            account_id=given.get("account") or settings.HEADRACE.account_id,
            endpoint_name=given.get("endpoint", ""),
            states=tuple(states),
            failure_kinds=(given["kind"],) if given.get("kind") else (),
            inference_id=given.get("inference_id", ""),
            accepted_after=_utc(given.get("after")),
            accepted_before=_utc(given.get("before")),
        )


def accounts() -> list[str]:
    """The accounts there are, the installation's own first."""
    own = settings.HEADRACE.account_id
    others = Account.objects.exclude(account_id=own).order_by("account_id").values_list("account_id", flat=True)
    return [own, *others]


@dataclass(frozen=True)
class Story:
    """One request: the row, its steps in order, and what may be done with it, or why not."""

    row: AsyncInvocation
    tone: str
    kind: str
    steps: Sequence[Told]
    has_gap: bool
    endpoint_exists: bool
    has_payload: bool

    @property
    def is_open(self) -> bool:
        """Whether something may still happen to it by itself."""
        return self.row.state in _OPEN

    @property
    def may_redrive(self) -> bool:
        """Whether it can be put back, as far as can be seen; the service decides."""
        return self.row.state in DEAD and self.endpoint_exists and self.has_payload

    @property
    def may_cancel(self) -> bool:
        """Whether it can be cancelled, as far as can be seen; the service decides."""
        return self.is_open and not self.row.failure_kind and not self.row.is_storing

    @property
    def why_not(self) -> str:
        """Why a dead letter cannot be put back; blank where it can, or is none."""
        if self.row.state not in DEAD:
            return ""
        if not self.endpoint_exists:
            return "It cannot be put back: its endpoint was deleted. One made again under the name is another one."
        return "" if self.has_payload else "It cannot be put back: its payload is no longer kept."


def search(which: Filter, token: str) -> Page:
    """A page of requests, the latest first. Raises ValidationException for a foreign token."""
    return find(which, limit=PAGE, token=token)


def story(row: AsyncInvocation) -> Story:
    """Everything that is known of a request."""
    exists = Endpoint.objects.filter(pk=row.endpoint_id).exclude(phase__in=(Phase.DELETING, Phase.FAILED)).exists()
    return Story(
        row=row,
        tone=TONES[InvocationState(row.state)],
        kind=KINDS.get(row.failure_kind, row.failure_kind) if row.failure_kind else "",
        steps=timeline.tell(row.accepted_at, row.timeline),
        has_gap=timeline.has_gap(row.timeline),
        endpoint_exists=exists,
        has_payload=bool(row.input_location) or AsyncPayload.objects.filter(pk=row.pk).exists(),
    )


@dataclass(frozen=True)
class DeadClass:
    """Dead letters that ended in the same way, at one endpoint."""

    counted: ClassCount
    tone: str
    kind: str
    endpoint_exists: bool


@dataclass(frozen=True)
class EndpointDead:
    """The dead letters of one endpoint by class, and what of those put back is still on its way."""

    endpoint_name: str
    classes: tuple[DeadClass, ...]
    redriving: int
    queued: int
    running: int

    @property
    def total(self) -> int:
        """All of its dead letters."""
        return sum(each.counted.count for each in self.classes)


def dead(account_id: str, endpoint_name: str = "") -> tuple[EndpointDead, ...]:
    """Dead letters by endpoint and class; with what is on its way, so that a redrive can be watched."""
    states = (*DEAD_STATES, *(str(state) for state in _OPEN))
    found: dict[str, list[ClassCount]] = {}
    for each in counts(Filter(account_id, endpoint_name, states)):
        found.setdefault(each.endpoint_name, []).append(each)
    standing = Endpoint.objects.filter(account_id=account_id, name__in=found)
    names = set(standing.exclude(phase__in=(Phase.DELETING, Phase.FAILED)).values_list("name", flat=True))
    told = (_dead(name, classes, names) for name, classes in sorted(found.items()))
    return tuple(each for each in told if each.classes or each.redriving)


def _dead(name: str, classes: Sequence[ClassCount], names: set[str]) -> EndpointDead:
    by_state: Mapping[str, int] = {
        state: sum(each.count for each in classes if each.state == state) for state in {each.state for each in classes}
    }
    dead_ones = tuple(
        DeadClass(each, TONES[InvocationState(each.state)], KINDS.get(each.failure_kind, each.failure_kind), name in names)
        for each in classes
        if each.state in DEAD_STATES
    )
    return EndpointDead(
        name,
        dead_ones,
        by_state.get(InvocationState.REDRIVING, 0),
        by_state.get(InvocationState.QUEUED, 0),
        by_state.get(InvocationState.RUNNING, 0),
    )


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=moment.tzinfo or UTC) if moment else None

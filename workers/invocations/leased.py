"""A claimed request as its worker knows it, and what is noted of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from controlplane.core import clock
from controlplane.invocations.messages import Note
from controlplane.invocations.steps import Step, clean
from workers.invocations.plan import Fail, Kind

Noted = list[object]
"""A step of the timeline as it is kept."""


class Leased(NamedTuple):
    """A claimed request and what is needed to run it; `failure_kind` is set when only its failure is to be told.

    `body` is the inline payload, where there is one. `slots` are those that were free when it was claimed, its own among
    them; `revision` is that of the routing document by which its instance was chosen, and `document` that document, where
    the claim did not know it yet.
    """

    id: UUID
    account_id: str
    endpoint_id: UUID
    endpoint_name: str
    variant_name: str
    content_type: str
    accept: str
    custom_attributes: str
    inference_id: str
    input_location: str
    attempts: int
    accepted_at: datetime
    queued_at: datetime
    expires_at: datetime
    timeout_seconds: int
    output_location: str
    failure_location: str
    delivery: dict[str, Any]
    is_storing: bool
    outcome_text: str
    failure_kind: str
    instance_id: UUID | None
    lease_token: UUID
    body: bytes | None = None
    slots: int = 0
    revision: int = 0
    document: dict[str, Any] | None = None

    @property
    def failure(self) -> Fail | None:
        """The failure that was decided, if one was."""
        return Fail(self.outcome_text, Kind(self.failure_kind)) if self.failure_kind else None

    def step(self, step: Step, detail: str = "", at: datetime | None = None) -> Noted:
        """A step of this request's timeline, now unless `at` says otherwise."""
        return [(at or clock.now()).isoformat(), step.value, self.attempts, clean(detail) if detail else ""]


class Made(NamedTuple):
    """What became of a leased request: the steps to append to its timeline, and the messages that tell of it.

    `has_ended`: it is completed; else its answer is about to be stored.
    """

    leased: Leased
    steps: Sequence[Noted]
    has_ended: bool
    notes: Sequence[Note] = ()

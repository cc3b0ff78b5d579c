"""The timeline of a request as it is told: each step for machines, with a sentence for people. Pure.

The stored steps begin with the first claim (see `invocations.steps`); acceptance comes from the row itself. A timeline
that outgrew its limit says where steps were left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.invocations.steps import LIMIT, Step

ACCEPTED = "accepted"

_SENTENCES: dict[str, tuple[str, str]] = {
    # step: what is said without a detail, and with one
    Step.CLAIMED: ("A worker took it to tell its outcome.", "A worker took it for instance {detail}."),
    Step.SENT: ("It was sent to the model.", "It was sent to the model: {detail}."),
    Step.ANSWERED: ("The model answered.", "The model answered: {detail}."),
    Step.STORED: ("The answer is at its output location.", "The answer is at its output location: {detail}."),
    Step.NOTIFIED: ("A topic was told.", "Topic {detail} was told."),
    Step.RETRIED: ("It went back into the queue.", "It went back into the queue: {detail}."),
    Step.FAILED: ("It failed.", "It failed: {detail}."),
    Step.EXPIRED: ("It expired in the queue.", "It expired in the queue: {detail}."),
    Step.CANCELLED: ("Its cancellation was told.", "It was cancelled {detail}."),
    Step.REDRIVEN: ("It was put back into the queue.", "It was put back into the queue {detail}."),
}


@dataclass(frozen=True)
class Told:
    """One step: when, what (a word for machines), of which attempt (0 = before any), the detail, and all of it in words."""

    at: datetime
    step: str
    attempt: int
    detail: str
    sentence: str


def tell(accepted_at: datetime, steps: Sequence[Sequence[Any]]) -> list[Told]:
    """The whole story, in order. `steps` are as stored; what cannot be read as a step is left out."""
    told = [Told(accepted_at, ACCEPTED, 0, "", "The request was accepted.")]
    return told + [step for stored in steps if (step := _told(stored)) is not None]


def has_gap(steps: Sequence[object]) -> bool:
    """Whether steps may have been left out, after the first KEPT_FIRST."""
    return len(steps) >= LIMIT


def _told(stored: Sequence[Any]) -> Told | None:
    try:
        at, step, attempt, detail = stored
        moment, word, number = datetime.fromisoformat(at), str(step), int(attempt)
    except (TypeError, ValueError):
        return None
    bare, with_detail = _SENTENCES.get(word, (f"{word}.", f"{word}: {{detail}}."))
    sentence = with_detail.replace("{detail}", str(detail).rstrip(".")) if detail else bare
    return Told(moment, word, number, str(detail), sentence)

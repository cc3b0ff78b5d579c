"""What an answer, or its absence, means for an invocation. Pure.

At least once, and one outcome: a model's 4xx is final, its 5xx and everything of transport are tried again, with a
back-off, until the attempts are used up.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

ATTEMPTS_LIMIT = 3
RETRY_FIRST_SECONDS = 1.0
TEXT_LIMIT = 2048


@dataclass(frozen=True)
class Store:
    """Keep the answer as the output object."""


@dataclass(frozen=True)
class Retry:
    """Back into the queue, not to be tried before `due_at`."""

    due_at: datetime
    why: str


@dataclass(frozen=True)
class Fail:
    """The request has failed; `text` goes into the failure object."""

    text: str


Step = Store | Retry | Fail


def after_answer(status: int, text: str, attempts: int, now: datetime) -> Step:
    """The step after the container answered with `status`; `text` is the start of a failed answer's body."""
    if 200 <= status < 300:
        return Store()
    side = "client" if 400 <= status < 500 else "server"
    why = f'Received {side} error ({status}) from model with message "{text[:TEXT_LIMIT]}".'
    return Fail(why) if side == "client" else after_fault(why, attempts, now)


def after_fault(why: str, attempts: int, now: datetime) -> Retry | Fail:
    """The step after an attempt that ended without a proper answer; `attempts` counts it."""
    if attempts >= ATTEMPTS_LIMIT:
        return Fail(f"{why} It was tried {attempts} times.")
    return Retry(now + timedelta(seconds=RETRY_FIRST_SECONDS * 2 ** (attempts - 1)), why)


EXPIRED_TEXT = "The request expired: it waited in the queue for longer than its RequestTTLSeconds."
DELETED_TEXT = "The endpoint was deleted before the request was processed."
ABANDONED_TEXT = "The worker that ran the request ended before it had an answer."

"""What an answer, or its absence, means for an invocation. Pure.

At least once, and one outcome: a model's 4xx is final, and so is the end of the time that the caller allowed for the
call; the model's 5xx and everything of transport are tried again, with a back-off, until the attempts are used up.
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
    """Back into the queue, not to be tried before `due_at`; unless it was an attempt, it is as if it had not run."""

    due_at: datetime
    why: str
    is_attempt: bool = True


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
    quoted = text[:TEXT_LIMIT].replace("\x00", "\N{REPLACEMENT CHARACTER}")  # no database keeps a NUL in a text
    why = f'Received {side} error ({status}) from model with message "{quoted}".'
    return Fail(why) if side == "client" else after_fault(why, attempts, now)


def after_fault(why: str, attempts: int, now: datetime) -> Retry | Fail:
    """The step after an attempt that ended without a proper answer; `attempts` counts it."""
    if attempts >= ATTEMPTS_LIMIT:
        return Fail(f"{why} It was tried {attempts} times.")
    return Retry(now + timedelta(seconds=RETRY_FIRST_SECONDS * 2 ** (attempts - 1)), why)


def after_no_connection(why: str, now: datetime) -> Retry:
    """The step after an instance could not be reached: the model saw nothing, so it was no attempt.

    Its replacement may take minutes; only the request's own time in the queue ends this.
    """
    return Retry(now + timedelta(seconds=RETRY_FIRST_SECONDS), why, is_attempt=False)


def after_timeout(seconds: int) -> Fail:
    """The step after a call was not answered whole within the caller's InvocationTimeoutSeconds.

    Not tried again: a second call could take as long once more, and its slot with it.
    """
    return Fail(f"The model gave no whole answer within {seconds} s (InvocationTimeoutSeconds).")


EXPIRED_TEXT = "The request expired: it waited in the queue for longer than its RequestTTLSeconds."
DELETED_TEXT = "The endpoint was deleted before the request was processed."
ABANDONED_TEXT = "The worker that ran the request ended before it had an answer."

"""What an answer, or its absence, means for an invocation. Pure.

At least once, and one outcome: a model's 4xx is final, and so is the end of the time that the caller allowed for the
call; the model's 5xx and everything of transport are tried again, with a back-off, until the attempts are used up.

Only what reached the model is an attempt. A payload that cannot be fetched now is waited for as long as the request may
wait in the queue; an answer that the store does not take now is kept and offered again (`store_pause`, `storing_until`).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

DEFAULT_CONCURRENCY = 4
"""Calls at once on each instance where MaxConcurrentInvocationsPerInstance is not given."""

ATTEMPTS_LIMIT = 3
RETRY_FIRST_SECONDS = 1.0
TEXT_LIMIT = 2048

WAIT_LAST_SECONDS = 60.0
"""The longest pause between two tries of what is no attempt."""

REFUSALS_LIMIT = 3
"""So many times in a row the store refuses (no such bucket, access denied) and it is taken at its word."""

STORING_SECONDS = 900.0
"""An answer is offered to a store that is away for at least so long, and in any case while the request may be queued."""


class Kind(StrEnum):
    """The class of a failure, as in `controlplane.invocations.models` (restated so that planners need no Django)."""

    MODEL_CLIENT_ERROR = "model_client_error"
    MODEL_SERVER_ERROR = "model_server_error"
    NO_ANSWER = "no_answer"
    TIMEOUT = "timeout"
    INPUT_MISSING = "input_missing"
    INPUT_REFUSED = "input_refused"
    INPUT_TOO_LARGE = "input_too_large"
    OUTPUT_STORE = "output_store"
    EXPIRED = "expired"
    ENDPOINT_DELETED = "endpoint_deleted"
    ABANDONED = "abandoned"
    CANCELLED = "cancelled"


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
    kind: Kind


Step = Store | Retry | Fail


def after_answer(status: int, text: str, attempts: int, now: datetime) -> Step:
    """The step after the container answered with `status`; `text` is the start of a failed answer's body."""
    if 200 <= status < 300:
        return Store()
    side = "client" if 400 <= status < 500 else "server"
    quoted = clean(text[:TEXT_LIMIT])
    why = f'Received {side} error ({status}) from model with message "{quoted}".'
    if side == "client":
        return Fail(why, Kind.MODEL_CLIENT_ERROR)
    return after_fault(why, attempts, now, Kind.MODEL_SERVER_ERROR)


def after_fault(why: str, attempts: int, now: datetime, kind: Kind = Kind.NO_ANSWER) -> Retry | Fail:
    """The step after an attempt that ended without a proper answer; `attempts` counts it."""
    if attempts >= ATTEMPTS_LIMIT:
        return Fail(f"{why} It was tried {attempts} times.", kind)
    return Retry(now + timedelta(seconds=RETRY_FIRST_SECONDS * 2 ** (attempts - 1)), why)


def after_no_connection(why: str, now: datetime) -> Retry:
    """The step after an instance could not be reached: the model saw nothing, so it was no attempt.

    Its replacement may take minutes; only the request's own time in the queue ends this.
    """
    return Retry(now + timedelta(seconds=RETRY_FIRST_SECONDS), why, is_attempt=False)


def elsewhere(step: Retry, seconds: float) -> Retry:
    """The step, told with what becomes of the instance: for so many seconds others are asked first (see `reach`)."""
    return replace(step, why=f"{step.why} For {seconds:.0f} s it is asked only where no other instance is open.")


def after_timeout(seconds: int) -> Fail:
    """The step after a call was not answered whole within the caller's InvocationTimeoutSeconds.

    Not tried again: a second call could take as long once more, and its slot with it.
    """
    return Fail(f"The model gave no whole answer within {seconds} s (InvocationTimeoutSeconds).", Kind.TIMEOUT)


def after_store_away(why: str, accepted_at: datetime, now: datetime) -> Retry:
    """The step after something that is needed before the model is called did not answer: no attempt.

    The pause grows with the request's age, so that nobody has to count: a tenth of it, from 1 s to WAIT_LAST_SECONDS.
    """
    age = (now - accepted_at).total_seconds()
    return Retry(now + timedelta(seconds=min(max(age / 10, 1.0), WAIT_LAST_SECONDS)), why, is_attempt=False)


def store_pause(tries: int) -> float:
    """Seconds to wait after the store has not taken an object for the `tries`th time in a row, 1 or more."""
    return float(min(RETRY_FIRST_SECONDS * 2.0 ** min(tries - 1, 10), WAIT_LAST_SECONDS))


def storing_until(expires_at: datetime, began_at: datetime) -> datetime:
    """When an answer is no longer offered to a store that is away."""
    return max(expires_at, began_at + timedelta(seconds=STORING_SECONDS))


def room_for(held: int, free: int) -> int:
    """How many invocations an endpoint that holds `held` may add to a worker with `free` places.

    No more than leaves as many places free as it then holds: so there is always room for an endpoint that comes later,
    however long those of the others run. (The dynamic threshold of shared packet buffers: Choudhury and Hahne 1998.)
    """
    if held == 0:
        return min(free, max((free - held) // 2, 1))
    return max((free - held) // 2, 0)


def clean(text: str) -> str:
    """The text as a database keeps it: no NUL."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")


EXPIRED_TEXT = "The request expired: it waited in the queue for longer than its RequestTTLSeconds."
DELETED_TEXT = "The endpoint was deleted before the request was processed."
ABANDONED_TEXT = "The worker that ran the request ended before it had an answer."
GIVEN_BACK_TEXT = "The worker that ran the request could not bring it to an end."
UNHEARD_TEXT = "The connection to the database was lost while the request was claimed; nobody had begun it."

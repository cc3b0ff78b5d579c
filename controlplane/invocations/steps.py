"""The steps of a request's timeline. Pure.

A step is `[time in ISO 8601 with zone, step, attempt, detail]`: the attempt is the row's count when the step was made, the
detail a few words for humans (an instance, a status, a reason). A timeline that has grown long keeps its beginning and its
end: once it has LIMIT steps, each new one takes the place of the oldest one after the first KEPT_FIRST.
"""

from enum import StrEnum

LIMIT = 64
KEPT_FIRST = 32
DETAIL_LIMIT = 400


class Step(StrEnum):
    """What happened; `accepted` is not kept, since the row's own `accepted_at` says it."""

    CLAIMED = "claimed"
    """A worker has leased it; the detail is the instance that is to run it, where there is one."""

    SENT = "sent"
    """The whole payload is known and the call to the instance began."""

    ANSWERED = "answered"
    """The instance has answered whole; the detail is the status."""

    STORED = "stored"
    """The output object is written, and the request completed."""

    NOTIFIED = "notified"
    """A topic took the message of the outcome; the detail is the topic."""

    RETRIED = "retried"
    """Back in the queue; the detail is why."""

    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REDRIVEN = "redriven"


def clean(detail: str) -> str:
    """The detail as it is kept: short, and without what no database keeps in a text."""
    text = detail.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return text if len(text) <= DETAIL_LIMIT else text[: DETAIL_LIMIT - 1] + "\N{HORIZONTAL ELLIPSIS}"

"""The closed set of ways in which a provider can fail.

    ProviderError
      kind = CAPACITY       the provider has none of this type now: mark it, try the next pool at once
             QUOTA          an account limit is in the way: mark it for longer, try the next pool
             THROTTLED      too many calls: same pool again after a back-off, no mark
             MISCONFIGURED  the request can never work (image, role, subnet): stop and say so, do not walk the pools
             AMBIGUOUS      the call may or may not have happened: ask again by token before anything else
             GONE           the instance does not exist (any more): success for a terminate
             UNKNOWN        a refusal that nobody has met yet: mark it for a short time, try the next pool, tell somebody

What a controller does next depends on the kind alone, never on the message: the message is for humans.
"""

from enum import StrEnum


class ErrorKind(StrEnum):
    """Why a provider refused; see the table in the module docstring for what follows from each."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    THROTTLED = "throttled"
    MISCONFIGURED = "misconfigured"
    AMBIGUOUS = "ambiguous"
    GONE = "gone"
    UNKNOWN = "unknown"


class ProviderError(Exception):
    """A provider's refusal: a `kind` for the machine and a message for humans (at most a few lines, no secrets)."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

"""A problem as the front page tells it. Pure; see `problems` for what is one."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum


class Severity(IntEnum):
    """How bad it is: BAD has somebody wait or pay now, WARN may soon."""

    BAD = 0
    WARN = 1

    @property
    def css(self) -> str:
        """The class of the style sheet."""
        return f"is-{self.name.lower()}"

    @property
    def icon(self) -> str:
        """The symbol."""
        return "error" if self is Severity.BAD else "warning"


@dataclass(frozen=True)
class Problem:
    """A sentence, what to do, where to do it (`page`, with the account and name it is about), and since when."""

    severity: Severity
    sentence: str
    advice: str
    page: str
    account_id: str = ""
    name: str = ""
    since: datetime | None = None


def told(beginning: str, reason: str) -> str:
    """A sentence and, after a colon, the reason that was stored."""
    reason = reason.strip().rstrip(".")
    return f"{beginning}: {reason}." if reason else f"{beginning}."

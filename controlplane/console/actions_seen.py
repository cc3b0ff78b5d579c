"""What a form was rendered from, and what has changed since. Pure.

    page rendered --- the facts it shows, as a token in the form ---> POST --- the facts now, under lock
                                                                               |             |
                                                                          the same       others: nothing is done,
                                                                        the change is      and the page says
                                                                             made            what changed

So a form that was open for an hour cannot put back what somebody else changed meanwhile. The token is not signed: whoever
may send the form may also see the facts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Facts = Mapping[str, str]
"""What matters to an action, in words: label -> value."""

NOTHING = "nothing"
_LIMIT = 200_000


@dataclass(frozen=True)
class Change:
    """A fact that is another one now."""

    label: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.label}: {self.before} → {self.after}"


def token(facts: Facts) -> str:
    """The facts as a form carries them."""
    return json.dumps(dict(facts), ensure_ascii=False, separators=(",", ":"))


def read(text: str) -> dict[str, str] | None:
    """The facts of a token; None for what is none."""
    found = parsed(text, _LIMIT)
    is_facts = isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
    return found if is_facts else None


def parsed(text: str, limit: int) -> Any:
    """The JSON that a form carries unseen, of so many characters at most; None for what is none, or nests too deeply."""
    if len(text) > limit:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def changes(before: Facts, after: Facts) -> tuple[Change, ...]:
    """The facts that differ, in the order in which they are shown now, those that are gone last."""
    labels = dict.fromkeys([*after, *before])
    pairs = ((label, before.get(label, NOTHING), after.get(label, NOTHING)) for label in labels)
    return tuple(Change(*pair) for pair in pairs if pair[1] != pair[2])

"""What to do about each suspect: pure, level-triggered, one sweep at a time.

A *suspect* is an instance that carries this control plane's name, is old enough, and that no live row knows. In order:

    the sweep is held back, or only reports   leave it, and say so
    its end was asked for already             ask again: an end is never given up
    its launch is known and still of use      adopt it: its endpoint lacks just such an instance
    else                                      end it

An old database makes every instance that was launched after its backup look orphaned. It gives itself away: the intent
to launch is committed before the launch, so a database that remembers nothing at all of the time of a launch has lost
that time. Then, or when suddenly most of what there is looks orphaned, the sweep is held back until an operator confirms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from controlplane.core.words import counted

MANY = 10
"""More orphans at once than crashes leave: if they are also the greater part of what there is, look twice."""


class Mode(StrEnum):
    """What the sweep may do: HEADRACE_ORPHAN_SWEEP."""

    KILL = "kill"
    REPORT = "report"


class Verdict(StrEnum):
    """What becomes of a suspect."""

    LEAVE = "leave"
    ADOPT = "adopt"
    END = "end"


@dataclass(frozen=True)
class Suspect:
    """An instance that looks orphaned.

    `has_origin` when the launch that made it is known, `is_lacking` when that launch's endpoint serves and lacks an
    instance of its variant, `is_up` when the instance boots or runs. `is_remembered` is False when the database knows
    nothing of the time of its launch. `is_asked` when its end was asked for before.
    """

    provider_id: str
    launched_at: datetime
    has_origin: bool = False
    is_lacking: bool = False
    is_up: bool = True
    is_remembered: bool = True
    is_asked: bool = False


@dataclass(frozen=True)
class Decision:
    """What becomes of one suspect, and why."""

    suspect: Suspect
    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Plan:
    """A decision for every suspect; `hold` is why all of them are held back, empty when they are not."""

    decisions: tuple[Decision, ...]
    hold: str = ""


def plan(suspects: Sequence[Suspect], listed: int, mode: Mode, *, held: str, confirmed_at: datetime | None) -> Plan:
    """What to do about these suspects among `listed` instances; `held` is why an earlier sweep was held back, if it was.

    An operator's confirmation stands for every instance launched up to `confirmed_at`.
    """
    doubtful = [each for each in suspects if not each.is_asked and not _is_confirmed(each, confirmed_at)]
    hold = (held or why_hold(doubtful, listed)) if doubtful else ""
    return Plan(tuple(_decide(each, mode, hold, confirmed_at) for each in suspects), hold)


def why_hold(doubtful: Sequence[Suspect], listed: int) -> str:
    """Why nothing should be done about these suspects without an operator's word; empty when nothing speaks against it."""
    forgotten = sum(not each.is_remembered for each in doubtful)
    if forgotten:
        return (
            f"the database remembers nothing of the time at which {counted(forgotten, 'instance')} came up: "
            "it looks restored from an older backup"
        )
    if len(doubtful) > MANY and 2 * len(doubtful) > listed:
        return f"{len(doubtful)} of {listed} instances look orphaned at once: it looks like the database that is wrong"
    return ""


def _decide(suspect: Suspect, mode: Mode, hold: str, confirmed_at: datetime | None) -> Decision:
    if mode is Mode.REPORT:
        return Decision(suspect, Verdict.LEAVE, "the sweep only reports (HEADRACE_ORPHAN_SWEEP=report)")
    if suspect.is_asked:
        return Decision(suspect, Verdict.END, "it has not ended yet: asked again")
    if hold and not _is_confirmed(suspect, confirmed_at):
        return Decision(suspect, Verdict.LEAVE, f"the sweep is held back: {hold}")
    if suspect.has_origin and suspect.is_lacking and suspect.is_up:
        return Decision(suspect, Verdict.ADOPT, "its endpoint lacks such an instance")
    return Decision(suspect, Verdict.END, "no endpoint has it")


def _is_confirmed(suspect: Suspect, confirmed_at: datetime | None) -> bool:
    return confirmed_at is not None and suspect.launched_at <= confirmed_at

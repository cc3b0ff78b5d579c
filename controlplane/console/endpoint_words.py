"""Endpoints in words: status, strategies, options, and the steps of a deployment. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.console.words import dollars, span
from controlplane.core.words import counted
from controlplane.endpoints.options import Options

TONES = {
    "Creating": "busy",
    "InService": "good",
    "Updating": "busy",
    "RollingBack": "warn",
    "UpdateRollbackFailed": "bad",
    "Failed": "bad",
    "Deleting": "idle",
}
"""Status -> how it is coloured."""

LABELS = {
    "Creating": "Creating",
    "InService": "In service",
    "Updating": "Updating",
    "RollingBack": "Rolling back",
    "UpdateRollbackFailed": "Roll-back failed",
    "Failed": "Failed",
    "Deleting": "Deleting",
}

IN_PROGRESS = frozenset({"Creating", "Updating", "RollingBack", "Deleting"})
"""Something moves by itself: pages look again soon."""

STAGE_TONES = {
    "pending": "busy",
    "starting": "busy",
    "ready": "good",
    "draining": "warn",
    "terminating": "idle",
    "terminated": "idle",
}

_WHOLE = {"unit": "CAPACITY_PERCENT", "value": 100}

_ROLLOUTS = {
    "ALL_AT_ONCE": "Blue/green, all at once: a whole new fleet beside the old one, then every call goes to it",
    "CANARY": "Blue/green, canary: a whole new fleet beside the old one; {size} of the calls first, then all",
    "LINEAR": "Blue/green, linear: a whole new fleet beside the old one; {size} more of the calls at each step",
    "ROLLING": "Rolling: {size} of the fleet at a time, the new instances serving before the old ones go",
    "SURGELESS": "Rolling without surge: {size} of the fleet at a time, the old instances going before the new ones come",
}


def strategy(stored: Mapping[str, Any]) -> str:
    """A deployment's strategy, as `endpoints.strategies.strategy_of` makes it, in a sentence."""
    parts = [_ROLLOUTS[stored["rollout"]].format(size=_size(stored.get("size", _WHOLE)))]
    bake, wait = stored.get("bake_seconds", 0), stored.get("termination_wait_seconds", 0)
    if bake:
        parts.append(f"each step bakes for {span(bake)}")
    if wait:
        parts.append(f"the old fleet is kept for {span(wait)}")
    return f"{'; '.join(parts)}."


def _size(size: Mapping[str, Any]) -> str:
    return f"{size['value']} %" if size["unit"] == "CAPACITY_PERCENT" else counted(size["value"], "instance")


def options(given: Options) -> Iterator[str]:
    """What an endpoint's option tags make of it, a sentence each."""
    if given.home_after_seconds is not None:
        after = span(given.home_after_seconds)
        yield f"Comes home: a fallback is replaced once a more wanted type has been open for {after}."
    if given.hourly_ceiling is not None:
        yield f"All instances together may cost {dollars(given.hourly_ceiling)} an hour; what costs more is passed over."
    for instance_type, seconds in given.patience_seconds.items():
        yield f"{instance_type} is asked only after {span(seconds)} without an instance."
    if given.markets != ("on-demand",):
        yield f"Asks the markets {', then '.join(given.markets)}."
    if given.wake_count is not None:
        yield f"Wakes up to {counted(given.wake_count, 'instance')} once something is queued while there are none."
    if given.is_surgeless:
        yield "Updates need no spare instance: a batch goes before its replacements come."


@dataclass(frozen=True)
class Stop:
    """One stage of a deployment on its way: `done`, `now` or `ahead`."""

    label: str
    standing: str


_STOPS = (
    ("retiring", "Old batch goes"),
    ("provisioning", "New instances start"),
    ("activating", "Calls shift"),
    ("baking", "Bake"),
    ("waiting", "Old fleet is kept"),
    ("cleaning", "Old fleet is drained"),
)


def stops(stored: Mapping[str, Any], stage: str) -> Sequence[Stop]:
    """The way of a deployment through the stages that its strategy has; none of them while it rolls back."""
    if stage == "rolling back":
        return ()
    left_out = {"retiring"} if stored["rollout"] != "SURGELESS" else set()
    left_out |= {"baking"} if not stored.get("bake_seconds") else set()
    left_out |= {"waiting"} if not stored.get("termination_wait_seconds") else set()
    shown = [(name, label) for name, label in _STOPS if name not in left_out or name == stage]
    names = [name for name, _ in shown]
    here = names.index(stage) if stage in names else -1
    return tuple(Stop(label, _standing(place, here)) for place, (_, label) in enumerate(shown))


def _standing(place: int, here: int) -> str:
    if place == here:
        return "now"
    return "done" if place < here else "ahead"


def fleet(counts: Mapping[str, int]) -> str:
    """Instances by type: `2 x ml.g5.2xlarge, 1 x ml.g4dn.xlarge`."""
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "no instance"

"""The pure rules of coming home: a fallback instance is replaced once the preferred type has been open for a while.

    (whole fleet, on a fallback) -- launch on a more wanted pool --> MOVING -- it serves, and has for a while --> ARRIVED
                                          |                            |                                            |
                                          +-- refused --+-- it fails --+                            one fallback is drained
                                                        v                                                           v
                                            hold-down, then again <--------------------------------------- hold-down

The replacement comes first and is surplus while it moves, so a move that fails costs nothing but the try. One move at a
time for each variant; how many there may be in all is checked where the intent is written. The hold-down after every
move, whatever came of it, keeps a flapping type from moving the fleet to and fro (Karpenter revalidates as long, and
moves one at a time, too). While an operator has paused it, no move starts; one that is under way goes on.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from controlplane.core.offerings import Rung, Search, Standing, ladder
from controlplane.core.words import counted
from workers.fleet.actions import Action, EndMove, ForgetInstance, Launch, Terminate
from workers.fleet.scale_in import victims
from workers.fleet.view import Instance, Stage, Variant

ARRIVAL_SECONDS = 15.0
"""How long a replacement must have served before a fallback goes for it."""


def movers(alive: Sequence[Instance], now: datetime) -> list[Instance]:
    """The instances that are on their way to replace one that is alive: surplus for the time being."""
    ids = {instance.id for instance in alive}
    return [each for each in alive if each.replaces in ids and not _has_arrived(each, now)]


def _has_arrived(instance: Instance, now: datetime) -> bool:
    return instance.stage is Stage.READY and now - instance.stage_since >= timedelta(seconds=ARRIVAL_SECONDS)


def arrivals(variant: Variant, alive: Sequence[Instance], moving: Sequence[Instance]) -> list[Action]:
    """The end of a move: its replacement serves, and one fallback goes by the order of scale-in."""
    arrived = [each for each in alive if each.replaces and each.stage is Stage.READY and each not in moving]
    return [EndMove(variant, f"{each.pool.instance_type} {each.id[:8]} took a fallback's place") for each in arrived]


def without_failure(variant: Variant, action: Action) -> list[Action]:
    """A replacement that never came up fails the move, not the variant: what it was to replace still serves."""
    if not isinstance(action, Terminate | ForgetInstance):
        return [action]
    why = f"the move to {action.instance.pool.instance_type} failed and is undone: {action.why}"
    return [type(action)(variant, action.instance, action.why), EndMove(variant, why)]


def departure(
    variant: Variant, staying: Sequence[Instance], moving: Sequence[Instance], headroom: float | None, now: datetime
) -> list[Action]:
    """The launch that starts a move, if there is one to make now."""
    if not _may_move(variant, staying, moving, now):
        return []
    fallback = victims(tuple(staying), 1)[0]
    for rung in ladder(Search(variant.offerings, headroom=headroom), now):
        if rung.offering.pool.priority >= fallback.pool.priority:
            return []
        if _is_open_for_long(rung, variant, now):
            return [_launch(variant, rung, fallback)]
    return []


def _may_move(variant: Variant, staying: Sequence[Instance], moving: Sequence[Instance], now: datetime) -> bool:
    """Only a whole fleet moves, one instance at a time, and after the hold-down."""
    if variant.home_after_seconds is None or variant.is_home_paused or moving or variant.attempts or not staying:
        return False
    if any(hold is not None and hold > now for hold in (variant.move_not_before, variant.launch_not_before)):
        return False
    return len(staying) == variant.desired_count and all(each.stage is Stage.READY for each in staying)


def pause(variant: Variant, staying: Sequence[Instance]) -> str:
    """What a pause keeps from happening, where there is a fallback that it keeps; blank otherwise."""
    if variant.home_after_seconds is None or not variant.is_home_paused or not variant.offerings:
        return ""
    wanted = min(offering.pool.priority for offering in variant.offerings)
    away = sum(instance.pool.priority > wanted for instance in staying)
    return f"Coming home is paused with {counted(away, 'fallback instance')} away." if away else ""


def _is_open_for_long(rung: Rung, variant: Variant, now: datetime) -> bool:
    """Whether nobody has been refused it for as long as asked, nor a mark closed it."""
    if rung.standing not in (Standing.OPEN, Standing.PROBE):
        return False
    mark, refused_at = rung.offering.mark, rung.offering.refused_at
    closed_at = [at for at in (mark.until if mark else None, refused_at) if at is not None]
    return all(now - at >= timedelta(seconds=variant.home_after_seconds or 0.0) for at in closed_at)


def _launch(variant: Variant, rung: Rung, fallback: Instance) -> Launch:
    home, away = rung.offering.pool, fallback.pool
    why = (
        f"variant {variant.name} comes home: {home.instance_type} (priority {home.priority}) is open again and is to "
        f"replace {away.instance_type} {fallback.id[:8]} (priority {away.priority})"
    )
    return Launch(variant, rung.offering, 1, rung.standing is Standing.PROBE, why, fallback.id)

"""When the plan of an unchanged endpoint can next come out differently, by time alone.

The product looks at a serving endpoint every 5 s, since pings must be asked; what is asked there is known here to be
answered well. So a simulated endpoint sleeps until a fact changes (the engine wakes it) or until a time passes that a
rule compares with: those are listed here, one by one. `tests/workers/simulator/test_calendar.py` holds the list complete:
it runs worlds with every look that the planner asks for and finds that no more happens.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from controlplane.core.offerings import ANYWAY_SECONDS, Offering
from workers.fleet import pace
from workers.fleet.actions import Plan
from workers.fleet.homing import ARRIVAL_SECONDS
from workers.fleet.plan import END_NOTICE_DRAIN_SECONDS
from workers.fleet.upkeep import BOOT_TIMEOUT_SECONDS, DRAIN_TIMEOUT_SECONDS, TERMINATE_AGAIN_SECONDS
from workers.fleet.view import IN_OPERATION, WANTED, Endpoint, Instance, Phase, Sighting, Stage, Variant

JUST_AFTER = timedelta(milliseconds=1)
"""Some rules ask whether a time is over, not whether it has come."""

_SERVING_PHASES = frozenset({Phase.CREATING, Phase.IN_SERVICE, Phase.UPDATING, Phase.ROLLING_BACK})


def next_look(endpoint: Endpoint, decided: Plan, now: datetime) -> datetime | None:
    """The first time after `now` at which planning again may pay; None: not before a fact changes."""
    times = [at for variant in endpoint.variants for at in _times(variant, endpoint.phase, now)]
    times += [_next_question(variant, decided, now) for variant in endpoint.variants if variant.attempts]
    return min((at for at in times if at > now), default=None)


def _next_question(variant: Variant, decided: Plan, now: datetime) -> datetime:
    """When lost launches are asked about again: as often as the planner looks, but not while the variant rests."""
    rest = variant.launch_not_before or now
    return max(decided.look_again_at, rest, now + JUST_AFTER)


def waits_for(endpoint: Endpoint) -> frozenset[str]:
    """The instance types whose becoming available would change the plan of this endpoint."""
    found: set[str] = set()
    for variant in endpoint.variants:
        is_short, worst = _is_short(variant, endpoint.phase), _worst(variant)
        if is_short or worst >= 0:
            pools = (offering.pool for offering in variant.offerings)
            found.update(pool.instance_type for pool in pools if is_short or pool.priority < worst)
    return frozenset(found)


def _times(variant: Variant, phase: Phase, now: datetime) -> Iterator[datetime]:
    for instance in variant.instances:
        yield from _times_of(instance, variant)
    if phase in IN_OPERATION and variant.provision_deadline is not None:
        yield variant.provision_deadline
    is_short, worst = _is_short(variant, phase), _worst(variant)
    if is_short or worst >= 0 or variant.attempts:
        yield from (at for at in (variant.launch_not_before, variant.move_not_before) if at is not None)
    if is_short:
        yield from _times_of_search(variant, now)
    else:
        yield from (
            at for offering in variant.offerings if offering.pool.priority < worst for at in _moves(offering, variant)
        )


def _times_of_search(variant: Variant, now: datetime) -> Iterator[datetime]:
    """A rest ends; else patience ends, a mark runs out or may be asked in spite of it, a probe's time is over."""
    if variant.launch_not_before is not None and variant.launch_not_before > now:
        return
    rest = pace.rest(variant, now) if variant.short_lives else None
    if rest is not None:
        yield rest.until
    for offering in variant.offerings:
        if variant.short_since is not None:
            yield variant.short_since + timedelta(seconds=offering.pool.patience_seconds)
        if offering.mark is not None:
            yield offering.mark.until
            yield offering.mark.marked_at + timedelta(seconds=ANYWAY_SECONDS)
            yield from _probe_ends(offering)


def _moves(offering: Offering, variant: Variant) -> Iterator[datetime]:
    """A more wanted pool has been open for long enough."""
    if offering.mark is not None:
        yield offering.mark.until + timedelta(seconds=variant.home_after_seconds or 0.0)
        yield from _probe_ends(offering)


def _probe_ends(offering: Offering) -> Iterator[datetime]:
    if offering.mark is not None and offering.mark.probe_expires_at is not None:
        yield offering.mark.probe_expires_at


def _times_of(instance: Instance, variant: Variant) -> Iterator[datetime]:
    since = instance.stage_since
    if instance.stage is Stage.PENDING:
        yield since + timedelta(seconds=BOOT_TIMEOUT_SECONDS + variant.download_timeout_seconds) + JUST_AFTER
    elif instance.stage is Stage.STARTING:
        yield since + timedelta(seconds=variant.startup_timeout_seconds) + JUST_AFTER
    elif instance.stage is Stage.DRAINING:
        yield since + timedelta(seconds=DRAIN_TIMEOUT_SECONDS) + JUST_AFTER
    elif instance.stage is Stage.TERMINATING and instance.sighting is not Sighting.GONE:
        yield (instance.terminate_asked_at or since) + timedelta(seconds=TERMINATE_AGAIN_SECONDS)
    elif instance.replaces:
        yield since + timedelta(seconds=ARRIVAL_SECONDS)
    if instance.ends_at is not None:
        yield instance.ends_at - timedelta(seconds=END_NOTICE_DRAIN_SECONDS)


def _is_short(variant: Variant, phase: Phase) -> bool:
    """Whether it lacks an instance that it may launch; an instance announced to end is lacked already."""
    alive = sum(each.stage in WANTED and each.ends_at is None for each in variant.instances)
    return phase in _SERVING_PHASES and alive < variant.desired_count


def _worst(variant: Variant) -> int:
    """The priority number of its least wanted ready instance, where it is to come home at all; else -1."""
    if variant.home_after_seconds is None:
        return -1
    return max((each.pool.priority for each in variant.instances if each.stage is Stage.READY), default=-1)

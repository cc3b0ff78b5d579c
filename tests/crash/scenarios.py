"""What is going on when the process dies: each scenario is a state, a wish, and how things must stand in the end.

A scenario may be run over any provider of `sites`; those that need the simulated world's knobs say so.
"""

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.states import Phase
from tests.crash.rig import Rig
from tests.crash.sites import SimulatedSite
from tests.workers.plane import FIRST, SECOND
from workers.providers.simulated.world import World

NAME = "e"
Step = Callable[[Rig], None]


@dataclass(frozen=True)
class Scenario:
    """`prepare` runs in peace; `wish` and what follows is what crashes. `is_wished` tells whether the wish was stored,
    so that the client has nothing to repeat. `serving` instances by type are there in the end, in `phase` (None = gone);
    at no moment more than `most`; the reasons in `told_once` stand in the story exactly once."""

    name: str
    prepare: Step
    wish: Step
    is_wished: Callable[[Rig], bool]
    phase: Phase | None
    serving: dict[str, int]
    most: int
    told_once: tuple[str, ...] = ()
    seconds: float = 240.0


def short_of(first: int = 9, second: int = 9, *, count: int = 2) -> Step:
    """A configuration of so many instances, and so many slots of the two types."""

    def prepare(rig: Rig) -> None:
        rig.site.set_capacity(FIRST, first)
        rig.site.set_capacity(SECOND, second)
        rig.configure(NAME, count=count, VariantInstanceProvisionTimeoutInSeconds=300)

    return prepare


def served(first: int = 9, second: int = 9, *, count: int) -> Step:
    """An endpoint that serves with `count` instances."""

    def prepare(rig: Rig) -> None:
        short_of(first, second, count=count)(rig)
        _create(rig)
        rig.run(rig.is_quiet, 60)

    return prepare


def _create(rig: Rig) -> None:
    rig.call("CreateEndpoint", EndpointName=NAME, EndpointConfigName=NAME)


def _scale(count: int) -> Step:
    return lambda rig: rig.scale(NAME, count)


def _is_created(rig: Rig) -> bool:
    return rig.exists(NAME)


def is_wished(_rig: Rig) -> bool:
    """Whether the wish that follows the creation was stored: every wish starts a generation."""
    return Endpoint.objects.get(name=NAME).generation > 1


def _delete(rig: Rig) -> None:
    rig.call("DeleteEndpoint", EndpointName=NAME)


def _is_deleted(_rig: Rig) -> bool:
    return not Endpoint.objects.filter(name=NAME).exclude(phase=Phase.DELETING).exists()


def is_so(_rig: Rig) -> bool:
    """The world does not forget what happened in it."""
    return True


def _half_created(rig: Rig) -> None:
    world_of(rig).set_knob("boot_seconds", 100)
    rig.configure(NAME, count=2)
    _create(rig)
    rig.idle(3)


def _kill_one(rig: Rig) -> None:
    victim = next(iter(rig.site.real())).provider_id
    rig.doomed.add(victim)
    rig.site.kill(victim)


def _sicken(rig: Rig) -> None:
    """Whatever lives falls ill; what replaces it is well."""
    rig.doomed.update(each.provider_id for each in rig.site.real())
    world_of(rig).set_knob("is_sick", 1)
    rig.meanwhile = lambda: _heal(rig)


def _heal(rig: Rig) -> None:
    if not rig.doomed.intersection(each.provider_id for each in rig.site.real()):
        world_of(rig).set_knob("is_sick", 0)


_UPDATED, _DELETED = "UpdateRequested", ("DeleteRequested", "EndpointDeleted")

EVERYWHERE = (
    Scenario("create", short_of(), _create, _is_created, Phase.IN_SERVICE, {FIRST: 2}, 2, ("InService",)),
    Scenario("scale-out", served(count=1), _scale(3), is_wished, Phase.IN_SERVICE, {FIRST: 3}, 3, (_UPDATED,)),
    Scenario("scale-in", served(2, count=3), _scale(1), is_wished, Phase.IN_SERVICE, {FIRST: 1}, 3, (_UPDATED,)),
    Scenario("delete", served(count=2), _delete, _is_deleted, None, {}, 2, _DELETED),
    Scenario("replace", served(count=2), _kill_one, is_so, Phase.IN_SERVICE, {FIRST: 2}, 2),
)
"""For every provider, real processes included."""

SIMULATED = (
    *EVERYWHERE,
    Scenario(
        *("fall-back", short_of(1, count=3), _create, _is_created),
        *(Phase.IN_SERVICE, {FIRST: 1, SECOND: 2}, 3, ("InService",)),
    ),
    Scenario(
        *("create-in-vain", short_of(1, 0), _create, _is_created),
        *(Phase.FAILED, {}, 1, ("Failed",), 500.0),
    ),
    Scenario(
        *("scale-out-in-vain", served(2, 0, count=1), _scale(3), is_wished),
        *(Phase.IN_SERVICE, {FIRST: 1}, 2, ("RollingBack", _UPDATED), 500.0),
    ),
    Scenario("delete-while-creating", _half_created, _delete, _is_deleted, None, {}, 2, _DELETED),
    Scenario("replace-the-sick", served(count=1), _sicken, is_so, Phase.IN_SERVICE, {FIRST: 1}, 1),
)
"""For the simulated world, which has a shortage for every occasion."""


def world_of(rig: Rig) -> World:
    """The simulated world below the rig."""
    assert isinstance(rig.site, SimulatedSite)
    return rig.site.world

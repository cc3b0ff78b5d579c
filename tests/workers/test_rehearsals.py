"""Rehearsed shortages: wanted by an operator, told to the provider by the workers."""

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from controlplane.core.errors import ValidationException
from controlplane.fleet.models import CapacityMark
from controlplane.observability import rehearsals as wanted
from controlplane.observability.models import CapacitySetting, Event
from controlplane.observability.offers import offer_of
from tests.workers.plane import FIRST, SECOND, Plane
from workers import rehearsals
from workers.providers import registry

ACCOUNT = "123456789012"


def want(plane: Plane, slots: int, instance_type: str = FIRST) -> CapacitySetting:
    return wanted.want("simulated", instance_type, slots, account_id=ACCOUNT, now=plane.clock.now())


def test_a_shortage_that_is_wanted_sends_launches_to_the_next_type_until_it_is_over(plane: Plane) -> None:
    want(plane, 0)
    rehearsals.apply(plane.clock.now())
    plane.create()
    plane.settle(10)
    assert plane.counts() == {FIRST: 0, SECOND: 1}
    assert CapacityMark.objects.filter(instance_type=FIRST).exists()
    row = want(plane, 2)
    assert row.applied_at is None
    rehearsals.apply(plane.clock.now())
    row.refresh_from_db()
    assert (row.applied_at, row.failure) == (plane.clock.now(), "")
    assert not CapacityMark.objects.filter(instance_type=FIRST).exists()
    offer = offer_of("simulated")
    assert offer is not None
    assert {offer.free[zone, FIRST] for zone in offer.zones} == {2}
    plane.scale("e", 2)
    plane.settle(10)
    assert plane.counts() == {FIRST: 1, SECOND: 1}
    assert Event.objects.filter(reason="CapacitySet", subject_name=FIRST).count() == 2


def test_a_crash_before_it_is_noted_tells_the_provider_once_more(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    want(plane, 0)

    def crash(*_: Any) -> bool:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(wanted, "told", crash)
        with pytest.raises(SystemExit):
            rehearsals.apply(plane.clock.now())
    assert CapacitySetting.objects.get().applied_at is None
    rehearsals.apply(plane.clock.now())
    assert CapacitySetting.objects.get().applied_at is not None


def test_what_is_wanted_meanwhile_is_told_next(plane: Plane) -> None:
    first = want(plane, 0)
    plane.clock.step(1)
    want(plane, 3)
    assert not wanted.told(first, plane.clock.now())
    rehearsals.apply(plane.clock.now())
    row = CapacitySetting.objects.get()
    assert (row.slots, row.applied_at) == (3, plane.clock.now())


@pytest.mark.parametrize(("provider", "slots"), [("ec2", 1), ("simulated", -1), ("simulated", 10**9)])
def test_what_cannot_be_wanted_is_refused(plane: Plane, provider: str, slots: int) -> None:
    with pytest.raises(ValidationException):
        wanted.want(provider, FIRST, slots, account_id=ACCOUNT, now=plane.clock.now())
    assert not CapacitySetting.objects.exists()


def test_a_provider_that_will_not_hear_of_it_says_why(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    want(plane, 1)
    monkeypatch.setattr(registry.get("simulated").world, "set_capacity", _refuse)
    rehearsals.apply(plane.clock.now())
    row = CapacitySetting.objects.get()
    assert row.failure == "Provider simulated could not be told: it is read-only"
    assert row.applied_at is not None, "it is not tried for ever"


def _refuse(*_: Any) -> None:
    raise ValueError("it is read-only")


def test_the_command_tells_the_provider_at_once(plane: Plane) -> None:
    out = io.StringIO()
    call_command("capacity", FIRST, "0", stdout=out)
    assert out.getvalue() == f"{FIRST}: 0 slots from now on; its capacity mark is cleared.\n"
    assert CapacitySetting.objects.get().applied_at is not None
    with pytest.raises(CommandError, match="Slots must be"):
        call_command("capacity", FIRST, "-1")

"""Capacity memory among many endpoints and many workers at once, over the real database."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction

from controlplane.endpoints.models import EndpointVariant
from controlplane.fleet.models import CapacityMark, LaunchAttempt
from controlplane.fleet.states import AttemptStage
from tests.workers.fleet.crowd import MeetingPlace, SlowProvider, all_at_once, ids_of, settle_together
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers.fleet import memory
from workers.providers import registry
from workers.providers.base import CALL_TIMEOUT_SECONDS
from workers.providers.errors import ErrorKind, ProviderError

CROWD = [f"e{number}" for number in range(10)]
FIRST_MARK = 300


@pytest.fixture
def meeting(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> MeetingPlace:
    """The plane's world behind a provider whose launch calls wait for one another."""
    provider = MeetingPlace(plane.world)
    monkeypatch.setattr(registry, "get", lambda name: provider)
    return provider


def create_all(plane: Plane, **options: object) -> None:
    """Create the crowd; nobody works on it yet."""
    for name in CROWD:
        plane.create(name, **options)  # type: ignore[arg-type]


def mark_length(plane: Plane) -> float:
    """How long the one mark there is holds from now on, in seconds."""
    return (CapacityMark.objects.get().until - plane.clock.now()).total_seconds()


def asks_of(plane: Plane, instance_type: str) -> int:
    """How often the provider was asked for this type, whatever it said."""
    return sum(call.instance_type == instance_type for call in plane.world.calls())


# At the same moment.


def test_refusals_and_successes_at_the_same_moment_are_all_stored(plane: Plane) -> None:
    """Whatever comes between two statements of one of them."""
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle(0)
    attempt = LaunchAttempt.objects.select_related("endpoint").get(instance_type=FIRST)
    refusal = ProviderError(ErrorKind.CAPACITY, "There is none.")

    def refuse_and_succeed() -> None:
        try:
            for _ in range(100):
                with transaction.atomic():
                    memory.remember_refusal(attempt, refusal, plane.clock.now())
                with transaction.atomic():
                    memory.forget_refusal(attempt)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as workers:
        for each in [workers.submit(refuse_and_succeed) for _ in range(4)]:
            each.result()
    assert not CapacityMark.objects.filter(instance_type=FIRST).exists()


def test_ten_endpoints_created_at_the_same_moment_ask_the_dry_type_once(plane: Plane, meeting: MeetingPlace) -> None:
    plane.world.set_capacity(FIRST, 0)
    create_all(plane)
    all_at_once(ids_of(CROWD))
    settle_together(plane)
    assert [plane.counts(name) for name in CROWD] == [{FIRST: 0, SECOND: 1}] * len(CROWD)
    assert plane.asked().count(f"{FIRST} capacity") == 1


def test_on_a_type_that_has_room_none_waits_longer_than_for_the_first_answer(plane: Plane, meeting: MeetingPlace) -> None:
    create_all(plane, types=(FIRST,))
    all_at_once(ids_of(CROWD))
    assert plane.asked() == [f"{FIRST} launched"]
    not_before = EndpointVariant.objects.exclude(launch_not_before=None).values_list("launch_not_before", flat=True)
    assert len(not_before) == len(CROWD) - 1
    assert max(not_before) - plane.clock.now() <= timedelta(seconds=0.1)
    plane.clock.step(0.1)
    all_at_once(ids_of(CROWD))
    assert plane.asked() == [f"{FIRST} launched"] * len(CROWD)


def test_a_first_ask_whose_worker_died_keeps_nobody_waiting_beyond_one_call(plane: Plane) -> None:
    plane.create("dead")
    plane.settle(0)
    LaunchAttempt.objects.update(stage=AttemptStage.INTENDED, ended_at=None)
    plane.create("other")
    start = plane.clock.now()
    while asks_of(plane, FIRST) < 2:
        all_at_once(ids_of(["other"]))
        plane.clock.step(0.25)
    assert (plane.clock.now() - start).total_seconds() <= CALL_TIMEOUT_SECONDS + 2.5


def test_an_image_nobody_can_run_keeps_no_other_endpoint_waiting(plane: Plane, meeting: MeetingPlace) -> None:
    plane.world.refuse("broken", "misconfigured", "No such image.")
    create_all(plane, types=(FIRST,))
    (victim,) = ids_of(CROWD[:1])
    for pool in EndpointVariant.objects.get(endpoint_id=victim).pools.all():
        pool.container["Image"] = "broken"
        pool.save()
    all_at_once([victim])
    settle_together(plane, 1.0)
    assert [plane.status(name) for name in CROWD[1:]] == ["InService"] * (len(CROWD) - 1)


def test_a_mark_that_ran_out_is_probed_by_one_of_ten_at_once(plane: Plane, meeting: MeetingPlace) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create("teacher")
    plane.settle()
    plane.clock.step(FIRST_MARK + 1)
    create_all(plane)
    asked = asks_of(plane, FIRST)
    all_at_once(ids_of(CROWD))
    settle_together(plane)
    assert asks_of(plane, FIRST) - asked == 1
    assert LaunchAttempt.objects.filter(is_probe=True).count() == 1
    assert [plane.status(name) for name in CROWD] == ["InService"] * len(CROWD)


def test_a_probe_that_succeeds_opens_the_type_for_all(plane: Plane, meeting: MeetingPlace) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create("teacher")
    plane.settle()
    plane.world.set_capacity(FIRST, 99)
    plane.clock.step(FIRST_MARK + 1)
    create_all(plane)
    all_at_once(ids_of(CROWD[:1]))
    assert not CapacityMark.objects.exists()
    settle_together(plane)
    assert [plane.counts(name)[FIRST] for name in CROWD] == [1] * len(CROWD)


def test_ten_at_once_never_get_more_than_there_is_and_all_are_served(plane: Plane, meeting: MeetingPlace) -> None:
    plane.world.set_capacity(FIRST, 3)
    create_all(plane)
    all_at_once(ids_of(CROWD))
    settle_together(plane)
    assert sum(plane.counts(name)[FIRST] for name in CROWD) == 3
    assert [sum(plane.counts(name).values()) for name in CROWD] == [1] * len(CROWD)
    assert CapacityMark.objects.get().streak == 1, "refusals of one wave count once"


# How long it is remembered.


def probe_refused(plane: Plane) -> float:
    """Let the mark run out and its probe be refused; returns the length of the new mark."""
    plane.clock.step(mark_length(plane) + 1)
    name = f"probe{LaunchAttempt.objects.count()}"
    plane.create(name)
    plane.settle(1)
    return mark_length(plane)


def test_a_mark_doubles_with_each_probe_refused_up_to_half_an_hour(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle(1)
    lengths = [mark_length(plane), *(probe_refused(plane) for _ in range(4))]
    assert lengths == pytest.approx([300, 600, 1200, 1800, 1800], abs=2)


def test_a_success_clears_the_mark_and_its_streak(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle(1)
    assert probe_refused(plane) > 590
    plane.world.set_capacity(FIRST, 1)
    plane.clock.step(mark_length(plane) + 1)
    plane.create("lucky")
    plane.settle(1)
    assert not CapacityMark.objects.exists()
    plane.create("unlucky")
    plane.settle(1)
    assert mark_length(plane) == pytest.approx(300, abs=2)


@pytest.mark.parametrize(("kind", "seconds"), [("capacity", 300), ("quota", 1800), ("unknown", 60)])
def test_the_kind_of_refusal_says_how_long_it_is_remembered(plane: Plane, kind: str, seconds: int) -> None:
    plane.world.refuse(FIRST, kind, "No.")
    plane.create()
    plane.settle(1)
    assert mark_length(plane) == pytest.approx(seconds, abs=2)
    assert plane.counts() == {FIRST: 0, SECOND: 1} or plane.status() == "Creating"


@pytest.mark.parametrize("knob", ["throttle", "lose_requests", "lose_replies"])
def test_what_says_nothing_of_capacity_marks_nothing(plane: Plane, knob: str) -> None:
    plane.world.set_knob(knob, 1)
    plane.create()
    plane.settle(10)
    assert not CapacityMark.objects.exists()
    assert plane.counts() == {FIRST: 1, SECOND: 0}


def test_two_of_three_launched_and_the_third_refused_is_remembered(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 2)
    plane.create(count=3)
    plane.settle()
    assert plane.counts() == {FIRST: 2, SECOND: 1}
    plane.create("other")
    plane.settle()
    assert plane.asked().count(f"{FIRST} capacity") == 1


# It never stands in the way.


def test_when_every_pool_is_marked_a_launch_is_tried_all_the_same(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.world.set_capacity(SECOND, 0)
    plane.create("teacher")
    plane.settle(1)
    plane.world.set_capacity(SECOND, 1)
    plane.create("other")
    plane.settle(15)
    assert plane.status("other") == "InService" or plane.status("teacher") == "InService"
    assert CapacityMark.objects.filter(instance_type=FIRST, until__gt=plane.clock.now()).exists()


def test_a_mark_outlives_a_walk_of_the_list_however_short_it_is_set(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call takes longer than a first mark lasts; the walk must reach the last pool in spite of that."""
    short = dataclasses.replace(settings.HEADRACE, capacity_mark_seconds=1)
    monkeypatch.setattr(settings, "HEADRACE", short)
    slow = SlowProvider(plane.world, plane.clock, 2)
    monkeypatch.setattr(registry, "get", lambda name: slow)
    plane.world.set_capacity(FIRST, 0)
    plane.world.set_capacity(SECOND, 0)
    plane.create(types=(FIRST, SECOND, THIRD), VariantInstanceProvisionTimeoutInSeconds=300)
    plane.settle(60)
    assert plane.status() == "InService"
    assert plane.counts() == {FIRST: 0, SECOND: 0, THIRD: 1}

"""Orphans and rehearsed shortages over the resource paths: whose they are, and what may be wished for."""

import pytest

from controlplane.auth.roles import Role
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan, Sweep
from tests.controlplane.rest.conftest import OTHER_ACCOUNT, Ask
from tests.controlplane.rest.people import holding, token_of
from tests.controlplane.rest.tenants import orphan
from tests.workers.plane import FIRST, SECOND, Plane
from workers import offers, wishes

ORPHANS, CAPACITY = "/api/v1/orphans", "/api/v1/simulated-capacity"


def test_orphans_are_listed_with_what_they_cost_and_whether_the_sweep_is_held(ask: Ask, plane: Plane) -> None:
    plane.create()
    known, gone = orphan(plane, "e", hourly_price=2.0), orphan(plane, "e", provider_id="i-2", state="gone")
    Sweep.objects.create(held_since=plane.clock.now(), held_why="the database looks older")
    plane.clock.step(60)
    found = ask("GET", ORPHANS).body
    [row] = found["Orphans"]
    assert (row["OrphanId"], row["EndpointName"], row["State"], row["Wish"]) == (known.pk, "e", "found", "")
    assert row["Dollars"] == pytest.approx(2.0 / 60)
    assert found["SweepHeldWhy"] == "the database looks older"
    [ended] = ask("GET", f"{ORPHANS}?State=gone").body["Orphans"]
    assert ended["OrphanId"] == gone.pk
    assert ask("GET", f"{ORPHANS}?EndpointName=other").body["Orphans"] == []
    assert ask("GET", f"{ORPHANS}?State=lost").code == "ValidationException"


def test_a_stranger_belongs_to_the_installation_s_own_account(ask: Ask, plane: Plane) -> None:
    row = orphan(plane)
    assert [each["OrphanId"] for each in ask("GET", ORPHANS).body["Orphans"]] == [row.pk]
    assert ask("GET", ORPHANS, account=OTHER_ACCOUNT).body["Orphans"] == []
    for method, path in (("GET", ""), ("POST", "/end"), ("POST", "/adopt")):
        assert ask(method, f"{ORPHANS}/{row.pk}{path}", account=OTHER_ACCOUNT).code == "ResourceNotFound"
    assert Orphan.objects.get().wish == ""


def test_a_wish_is_taken_and_carried_out_a_moment_later(ask: Ask, plane: Plane) -> None:
    row = orphan(plane)
    asked = holding(token_of(Role.OPERATOR))
    wished = asked("POST", f"{ORPHANS}/{row.pk}/end")
    assert (wished.status, wished.body["Wish"], wished.body["WishedBy"]) == (202, "end", "token operator")
    wishes.carry_out(plane.clock.now())
    told = ask("GET", f"{ORPHANS}/{row.pk}").body
    assert (told["State"], told["Wish"]) == ("gone", "")
    assert asked("POST", f"{ORPHANS}/{row.pk}/end").code == "ResourceInUse"
    assert list(Event.objects.filter(actor="token operator").order_by("id").values_list("reason", flat=True)) == [
        "OrphanWish",
        "OrphanEnding",
        "OrphanGone",
    ]


def test_what_cannot_be_adopted_says_why(ask: Ask, plane: Plane) -> None:
    row = orphan(plane, origin="nothing is known of its launch")
    found = ask("POST", f"{ORPHANS}/{row.pk}/adopt")
    assert (found.code, Orphan.objects.get().wish) == ("ResourceInUse", "")
    assert found.body["message"].endswith("cannot be adopted: nothing is known of its launch.")


@pytest.mark.parametrize("orphan_id", ["0", "999999999999999999999999"])
def test_an_orphan_that_is_not_there_is_not_found(ask: Ask, plane: Plane, orphan_id: str) -> None:
    for method, path in (("GET", ""), ("POST", "/end"), ("POST", "/adopt")):
        assert ask(method, f"{ORPHANS}/{orphan_id}{path}").code == "ResourceNotFound"


def test_a_sweep_that_is_held_back_is_let_go_by_an_administrator(ask: Ask, plane: Plane) -> None:
    Sweep.objects.create(held_since=plane.clock.now(), held_why="the database looks older")
    orphan(plane)
    assert ask("POST", f"{ORPHANS}/confirm").body == {"Confirmed": 1}
    assert Sweep.objects.get().held_since is None
    assert Event.objects.get(reason="OrphanSweepConfirmed").actor.startswith("key KEY")


def test_a_shortage_is_rehearsed_and_seen_to_be_there(ask: Ask, plane: Plane) -> None:
    offers.tell(plane.clock.now())
    before = ask("GET", f"{CAPACITY}/{FIRST}").body
    assert (before["Slots"], before["AppliedAt"]) == (None, None)
    wanted = ask("PUT", f"{CAPACITY}/{FIRST}", {"Slots": 0})
    assert (wanted.status, wanted.body["Slots"], wanted.body["AppliedAt"]) == (202, 0, None)
    assert wanted.body["SetBy"].startswith("key KEY")
    wishes.carry_out(plane.clock.now())
    found = ask("GET", CAPACITY).body
    [row] = found["SimulatedCapacity"]
    assert (found["Provider"], found["IsSettable"], row["InstanceType"]) == ("simulated", True, FIRST)
    assert row["AppliedAt"] is not None
    assert {each["Free"] for each in row["FreeSlots"]} == {0}
    plane.create()
    plane.settle(10)
    assert plane.counts() == {FIRST: 0, SECOND: 1}


def test_a_tenant_is_not_told_who_operates_the_installation(ask: Ask, plane: Plane) -> None:
    ask("PUT", f"{CAPACITY}/{FIRST}", {"Slots": 0})
    for path in (CAPACITY, f"{CAPACITY}/{FIRST}"):
        found = ask("GET", path, account=OTHER_ACCOUNT).body
        [row] = found.get("SimulatedCapacity", [found])
        assert (row["Slots"], row["SetBy"]) == (0, "")


@pytest.mark.parametrize(
    "body", [{}, {"Slots": -1}, {"Slots": "many"}, {"Slots": 10**9}, {"Slots": 1, "Zone": "a"}], ids=str
)
def test_a_capacity_that_makes_no_sense_is_refused(ask: Ask, plane: Plane, body: object) -> None:
    assert ask("PUT", f"{CAPACITY}/{FIRST}", body).code == "ValidationException"
    assert ask("PUT", f"{CAPACITY}/ml.no.such", {"Slots": 1}).code == "ResourceNotFound"

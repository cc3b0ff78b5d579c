"""The capacity board: what can be had where, and what may be done about it."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.auth.roles import Role
from controlplane.catalog.limits import set_limit
from controlplane.console.capacity_board import Board, Known, Mark, Quota, board
from controlplane.fleet.models import CapacityMark
from controlplane.observability.models import CapacitySetting, Event
from tests.controlplane.console.people import logged_in, text_of
from tests.fakes.clock import START
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers import offers

LATER, BEFORE = START + timedelta(minutes=5), START - timedelta(minutes=5)


def mark(zone: str = "a", **changes: object) -> Mark:
    """A refusal of ml.x, in force."""
    facts = {"id": 1, "instance_type": "ml.x", "zone": zone, "market": "on-demand", "kind": "capacity", "message": "None."}
    times = {"marked_at": BEFORE, "until": LATER, "streak": 1, "seen_by": "chat"}
    return Mark(**{**facts, **times, **changes})  # type: ignore[arg-type]


def shown(**changes: object) -> Board:
    """The board of a provider with the zones a and b."""
    nothing = {"zones": ("a", "b"), "free": {}, "otherwise": None, "in_use": {}, "marks": (), "wanted_by": {}, "prices": {}}
    return board(Known(**{**nothing, **changes}), START)  # type: ignore[arg-type]


def test_a_type_has_a_cell_for_each_zone_with_what_is_free_and_runs() -> None:
    (row,) = shown(free={("ml.x", "a"): 0}, otherwise=7, in_use={("ml.x", "b"): 3}).rows
    assert [(cell.zone, cell.free, cell.in_use, cell.state) for cell in row.cells] == [
        ("a", 0, 0, "full"),
        ("b", 7, 3, "fine"),
    ]


def test_a_provider_that_does_not_say_what_is_free_is_not_taken_for_full() -> None:
    (row,) = shown(wanted_by={"ml.x": 1}).rows
    assert [(cell.free, cell.state) for cell in row.cells] == [(None, "fine"), (None, "fine")]


@pytest.mark.parametrize(
    ("changes", "state"),
    [({}, "closed"), ({"until": BEFORE}, "open"), ({"until": BEFORE, "probe_expires_at": LATER}, "probed")],
    ids=["closed", "open", "probed"],
)
def test_a_mark_is_closed_until_it_ends_then_open_to_one_probe(changes: dict[str, object], state: str) -> None:
    (row,) = shown(marks=(mark(**changes),)).rows
    assert row.cells[0].state == state
    assert not row.is_closed


def test_a_type_that_is_marked_in_every_zone_is_closed() -> None:
    (row,) = shown(marks=(mark("a"), mark("b"))).rows
    assert row.is_closed


def test_the_most_wanted_type_comes_first_and_zones_that_are_gone_are_still_shown() -> None:
    found = shown(wanted_by={"ml.x": 1, "ml.y": 4}, in_use={("ml.z", "old"): 2}, quotas={"ml.y": (Quota("", 3),)})
    assert [row.instance_type for row in found.rows] == ["ml.y", "ml.x", "ml.z"]
    assert found.zones == ("a", "b", "old")
    assert found.rows[0].quotas == (Quota("", 3),)


def test_the_page_shows_what_the_planes_memory_holds(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    set_limit(settings.HEADRACE.account_id, SECOND, 9, now=plane.clock.now())
    plane.create("chat", types=(FIRST, SECOND))
    plane.settle()
    offers.tell(plane.clock.now())
    said = text_of(logged_in(Role.VIEWER).get("/admin/capacity/"))
    assert f"{FIRST} closed" in said
    assert "0 in use 0 free until" in said
    assert f"9 {settings.HEADRACE.account_id}" in said
    assert "There is no ml.g5.2xlarge capacity" in said
    assert "Clear mark" not in said


def test_the_board_takes_as_many_queries_for_many_types(plane: Plane) -> None:
    client = logged_in(Role.VIEWER)
    plane.create("one", types=(FIRST,))

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/admin/capacity/board/").status_code == 200
        return len(queries)

    before = asked()
    plane.create("others", types=(SECOND, THIRD, "ml.c5.large"))
    assert asked() == before


def test_a_cleared_mark_is_gone_and_the_next_search_asks_there(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create("chat", types=(FIRST, SECOND))
    plane.settle()
    row = CapacityMark.objects.get(instance_type=FIRST)
    client = logged_in(Role.OPERATOR, "alice")
    assert "Clear mark" in text_of(client.get("/admin/capacity/"))
    answer = client.post(f"/admin/capacity/marks/{row.pk}/clear/", follow=True)
    assert "The mark is cleared" in text_of(answer)
    assert not CapacityMark.objects.filter(pk=row.pk).exists()
    assert Event.objects.get(reason="MarkForgotten").actor == "operator alice"
    plane.world.set_capacity(FIRST, 5)
    plane.scale("chat", 2)
    plane.settle()
    assert plane.counts("chat") == {FIRST: 1, SECOND: 1}


def test_a_mark_that_is_gone_already_is_said_and_nothing_else(plane: Plane) -> None:
    answer = logged_in(Role.OPERATOR).post("/admin/capacity/marks/77/clear/", follow=True)
    assert "There is no capacity mark 77." in text_of(answer)


def test_administrators_rehearse_a_shortage(plane: Plane) -> None:
    client = logged_in(Role.ADMINISTRATOR, "root")
    answer = client.post("/admin/capacity/set/", {"instance_type": THIRD, "slots": "2"}, follow=True)
    assert f"{THIRD} is to have 2 slots" in text_of(answer)
    row = CapacitySetting.objects.get()
    assert (row.instance_type, row.slots, row.set_by) == (THIRD, 2, "operator root")
    assert "set to 2, being told" in text_of(client.get("/admin/capacity/"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"instance_type": "ml.none", "slots": "1"}, "is no instance type"),
        ({"instance_type": THIRD, "slots": "-1"}, "greater"),
    ],
    ids=["type", "slots"],
)
def test_nonsense_is_refused_in_words(plane: Plane, given: dict[str, str], sentence: str) -> None:
    answer = logged_in(Role.ADMINISTRATOR).post("/admin/capacity/set/", given, follow=True)
    assert sentence in text_of(answer)
    assert not CapacitySetting.objects.exists()

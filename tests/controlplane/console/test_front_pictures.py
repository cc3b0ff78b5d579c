"""The honeycomb, the chart and the bill: what is drawn is what there is."""

import re
from datetime import timedelta
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from hypothesis import given
from hypothesis import strategies as st

from controlplane.console.history import COLOURS, OTHERS, TYPES_SHOWN, Change, Window, colours, lines, window_before
from controlplane.console.honeycomb import CELLS, GROUPS_NAMED, RADIUS, STAGES, Bee, Crowd, aggregated, combs
from controlplane.console.money import Group, bill
from tests.fakes.clock import START

NAMES = st.sampled_from([f"endpoint-{place}" for place in range(60)])
BEES = st.lists(st.builds(Bee, NAMES, st.sampled_from(STAGES), st.just("")), max_size=300).map(
    lambda bees: sorted(bees, key=lambda bee: bee.group)
)


@given(BEES)
def test_every_instance_has_one_cell_and_no_two_cells_overlap(bees: list[Bee]) -> None:
    found = combs(bees)
    assert [cell.bee for comb in found for cell in comb.cells] == bees
    for comb in found:
        places = [(cell.x, cell.y) for cell in comb.cells]
        assert len(set(places)) == len(places)
        assert all(RADIUS * 0.8 <= x <= comb.width and RADIUS <= y <= comb.height for x, y in places)
        for (x, y), (other_x, other_y) in pairwise(places):
            assert (x - other_x) ** 2 + (y - other_y) ** 2 >= (RADIUS * 1.7) ** 2


@given(BEES)
def test_groups_have_their_names_while_there_are_few(bees: list[Bee]) -> None:
    names = [name for name, _ in groupby(bees, key=lambda bee: bee.group)]
    found = [comb.name for comb in combs(bees)]
    assert found == (names if len(names) <= GROUPS_NAMED else [""])


def test_a_comb_of_one_endpoint_leads_to_it() -> None:
    bees = [Bee("a", "ready", "", "1", "a"), Bee("a", "ready", "", "1", "a"), Bee("b", "ready", "", "1", "b")]
    assert [(comb.endpoint, comb.account_id) for comb in combs(bees)] == [("a", "1"), ("b", "1")]


CROWDS = st.lists(
    st.builds(Crowd, st.sampled_from(["ml.a", "ml.b", "ml.c"]), st.sampled_from(STAGES), st.integers(1, 40_000)),
    unique_by=lambda crowd: (crowd.instance_type, crowd.stage),
)


@given(CROWDS)
def test_more_instances_than_cells_share_cells_and_none_is_lost(crowds: list[Crowd]) -> None:
    bees, per_cell = aggregated(crowds)
    assert len(bees) <= CELLS
    assert sum(int(bee.title.split()[0]) for bee in bees) == sum(crowd.count for crowd in crowds)
    assert all(int(bee.title.split()[0]) <= per_cell for bee in bees)
    assert {(bee.group, bee.stage) for bee in bees} == {(crowd.instance_type, crowd.stage) for crowd in crowds}


LIVES = st.lists(st.tuples(st.sampled_from(["ml.a", "ml.b"]), st.integers(-500, 999), st.integers(1, 800)), max_size=40)


@given(LIVES)
def test_the_chart_counts_who_lived_at_the_end_of_each_step(lives: list[tuple[str, int, int]]) -> None:
    window = Window(START, timedelta(seconds=100), 10)
    at_start = {
        name: sum(1 for each, born, age in lives if each == name and born < 0 <= born + age) for name, _, _ in lives
    }
    changes = [Change(name, born // 100, 1) for name, born, _ in lives if born >= 0]
    changes += [Change(name, (born + age) // 100, -1) for name, born, age in lives if 0 <= born + age < 1000]
    for line in lines(window, at_start, changes):
        for step, value in enumerate(line.values):
            moment = (step + 1) * 100
            alive = sum(1 for name, born, age in lives if name == line.name and born < moment <= born + age)
            ends_there = sum(1 for name, born, age in lives if name == line.name and born + age == moment)
            assert value in (alive, alive - ends_there)


def test_types_beyond_the_most_numerous_are_one_line() -> None:
    window = Window(START, timedelta(hours=1), 2)
    at_start = {f"ml.{place:02}": 20 - place for place in range(12)}
    found = lines(window, at_start, [])
    assert [line.name for line in found] == [*(f"ml.{place:02}" for place in range(TYPES_SHOWN)), OTHERS]
    assert sum(line.values[-1] for line in found) == sum(at_start.values())


TYPES = st.lists(st.sampled_from([f"ml.{family}.xlarge" for family in "abcdefghijkl"]), max_size=TYPES_SHOWN, unique=True)


@given(TYPES, st.randoms(use_true_random=False))
def test_a_type_keeps_its_colour_whatever_the_order_of_the_lines(types: list[str], chance) -> None:
    names = [*types, OTHERS]
    found = colours(names)
    assert sorted(set(found.values())) == sorted(found.values())
    assert found[OTHERS] == COLOURS - 1
    chance.shuffle(names)
    assert colours(names) == found


def test_the_palette_has_as_many_colours_as_a_chart_has_lines() -> None:
    script = Path(finders.find("console/console.js")).read_text()
    assert len(re.findall("#[0-9a-f]{6}", re.search(r"palette: \[(.*?)\]", script).group(1))) == COLOURS


@pytest.mark.parametrize(("age_minutes", "hours"), [(None, 1), (5, 1), (59, 1), (61, 6), (370, 24), (100_000, 24)], ids=str)
def test_the_chart_looks_as_far_back_as_there_is_something_to_see(age_minutes: int | None, hours: int) -> None:
    first = None if age_minutes is None else START - timedelta(minutes=age_minutes)
    window = window_before(START, first)
    assert window.start == START - timedelta(hours=hours)
    assert window.moment(window.steps - 1) == START


def test_the_bill_adds_up_and_says_what_has_no_price() -> None:
    groups = [
        Group("ml.a", "on-demand", 2.0, 3.0, 1),
        Group("ml.a", "on-demand", 1.0, 1.0, 0),
        Group("ml.b", "spot", None, 4.0, 2),
    ]
    found = bill(groups)
    assert [(line.instance_type, line.spend.dollars) for line in found.lines] == [("ml.a", 7.0), ("ml.b", 0.0)]
    assert (found.total.running, found.total.hourly_dollars, found.total.unpriced_hours) == (3, 2.0, 4.0)

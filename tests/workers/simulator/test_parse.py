"""Reading scenarios: every fault is named with its field and its limits, and no text brings the reader down."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.simulator.worlds import SHIPPED
from workers.simulator.parse import parse
from workers.simulator.scenario import DAY, HOUR, Demand, PoolWish, Scenario
from workers.simulator.toml_table import PROBLEMS_SHOWN, ScenarioError

GOOD = """
title = "t"
days = 2
zones = ["a", "b"]

[[types]]
name = "x"
price = 1.5

[[endpoints]]
group = "g"
instances = 2
pools = [{ type = "x", priority = 1 }]
"""


def problems(text: str, **overrides: Any) -> tuple[str, ...]:
    """What is wrong with a text."""
    with pytest.raises(ScenarioError) as caught:
        parse(text, **overrides)
    return caught.value.problems


def test_a_small_scenario_has_the_settings_of_the_product() -> None:
    found = parse(GOOD)
    assert (found.duration, found.seed, found.mark_seconds) == (2 * DAY, 1, 300.0)
    assert (found.coming_home_budget, found.hold_down_seconds) == (2, 1800.0)
    assert found.groups[0].demand == Demand(2, 2)
    assert found.groups[0].pools == (PoolWish("x", 1),)
    assert found.groups[0].home_after_seconds is None


def test_units_in_field_names_become_seconds() -> None:
    text = GOOD.replace("instances = 2", "instances = 2\ncoming_home_minutes = 30\ncreated_over_minutes = 60")
    text += "\n[[outages]]\nfrom_hours = 1\nto_hours = 2.5\n"
    found = parse(text)
    assert found.groups[0].home_after_seconds == 1800
    assert found.groups[0].created_over == HOUR
    assert (found.outages[0].start, found.outages[0].end) == (HOUR, 2.5 * HOUR)


def test_days_and_seed_can_be_given_from_outside() -> None:
    found = parse(GOOD, days=0.5, seed=9)
    assert (found.days, found.seed) == (0.5, 9)
    assert "days: must be a number from 0.01 to 366" in problems(GOOD, days=-1.0)[0]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("price = 1.5", "", "types[0].price: is missing: must be a number from 0 to 10000"),
        ("price = 1.5", "price = -1", "types[0].price: must be a number from 0 to 10000, is -1"),
        ("price = 1.5", "price = nan", "types[0].price: must be a number from 0 to 10000, is nan"),
        ("price = 1.5", "price = true", "types[0].price: must be a number"),
        ("price = 1.5", 'price = "dear"', "types[0].price: must be a number"),
        ("price = 1.5", "price = 1.5\nprize = 2", "types[0].prize: there is no such field; there are boot_seconds"),
        ("instances = 2", "instances = 0", "endpoints[0].instances: must be a whole number from 1 to 200, is 0"),
        ("instances = 2", "instances = 1.5", "endpoints[0].instances: must be a whole number"),
        ("instances = 2", "", "endpoints[0].instances: is missing"),
        (
            "instances = 2",
            "instances = 2\ndemand = {low = 1, high = 2}",
            "endpoints[0].instances: must not be given beside",
        ),
        ("instances = 2", "demand = {low = 3, high = 2}", "endpoints[0].demand.high: must not be below low (3), is 2"),
        ("instances = 2", "instances = 2\nmarkets = []", "endpoints[0].markets: must be a list of some of on-demand, spot"),
        ("instances = 2", 'instances = 2\nmarkets = ["spot", "spot"]', "endpoints[0].markets: must be a list of some of"),
        ("instances = 2", "instances = 2\nprovision_seconds = 299", "provision_seconds: must be a number from 300 to 3600"),
        ("priority = 1", "priority = 6", "endpoints[0].pools[0].priority: must be a whole number from 1 to 5, is 6"),
        ('type = "x"', 'type = "y"', "endpoints[0].pools: y is none of the types"),
        ('zones = ["a", "b"]', "zones = 3", "zones: must be a list of different words, is 3"),
        ("days = 2", "days = 400", "days: must be a number from 0.01 to 366, is 400"),
        ('title = "t"', "", "title: is missing"),
        ('group = "g"', 'group = "total"', "endpoints: no group may be named total"),
        (
            'name = "x"',
            'name = "x"\nshortages = [{from_hours = 2, to_hours = 1}]',
            "to_hours: must be after from_hours (2)",
        ),
        (
            'name = "x"',
            'name = "x"\nshortages = [{from_hours = 1, to_hours = 2, zones = ["z"]}]',
            "shortages[0].zones: must",
        ),
        ('name = "x"', 'name = "x"\nflapping = 5', "types[0].flapping: must be a table, is 5"),
        ("days = 2", "days = 2\noutages = 7", "outages: must be a list of 0 to 1000 tables, is 7"),
        ("[[types]]", "[[types", "the file is no TOML"),
    ],
)
def test_a_fault_is_named_with_its_field_and_limits(old: str, new: str, fault: str) -> None:
    assert fault in "\n".join(problems(GOOD.replace(old, new, 1)))


def test_all_faults_are_told_at_once_and_not_without_end() -> None:
    text = GOOD.replace("days = 2", "days = 0").replace("price = 1.5", "price = -1").replace("priority = 1", "priority = 9")
    assert len(problems(text)) == 3
    many = GOOD + "".join(f"unknown_{number} = 1\n" for number in range(100))
    with pytest.raises(ScenarioError) as caught:
        parse(many)
    assert str(caught.value).count("\n") == PROBLEMS_SHOWN


def test_the_same_name_twice_is_a_fault() -> None:
    again = '\n[[types]]\nname = "x"\nprice = 1\n[[endpoints]]\ngroup = "g"\ninstances = 1\n'
    again += 'pools = [{type = "x", priority = 1}, {type = "x", priority = 2}]\n'
    found = "\n".join(problems(GOOD + again))
    for fault in ("types: x is there twice", "group g is there twice", "endpoints[1].pools: x is there twice"):
        assert fault in found


def test_numbers_that_no_computer_likes_are_refused_in_few_words() -> None:
    huge = "9" * 5000
    for value in (huge, "1e999", "-inf"):
        for fault in problems(GOOD.replace("days = 2", f"days = {value}")):
            assert len(fault) < 300


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_shipped_scenarios_are_sound(path: Path) -> None:
    assert parse(path.read_text()).days >= 1


def test_there_are_five_shipped_scenarios() -> None:
    assert len(SHIPPED) == 5


# Any text.

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def _mutated(draw: st.DrawFn) -> Any:
    """A sound scenario in which something is replaced by anything."""
    found = tomllib.loads(draw(st.sampled_from([path.read_text() for path in SHIPPED])))
    place: Any = found
    for _ in range(draw(st.integers(1, 5))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place))) if isinstance(place, list) else []
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if draw(st.booleans()):
            place[key] = draw(_values)
            break
        place = place[key]
    return found


@given(_mutated())
@settings(max_examples=150, deadline=None)
def test_whatever_is_changed_ends_in_a_scenario_or_in_named_faults(values: Any) -> None:
    try:
        found: Scenario | ScenarioError = parse(_toml(values))
    except ScenarioError as error:
        found = error
    assert isinstance(found, Scenario) or all(problem.strip() for problem in found.problems)


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_text_ends_in_faults(text: str) -> None:
    with pytest.raises(ScenarioError):
        parse(text)


def _toml(value: Any) -> str:
    """Values as TOML in one document; what TOML cannot say (null) is left out."""
    return "".join(f"{_key(key)} = {_inline(each)}\n" for key, each in value.items() if each is not None)


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _key(value)
    if isinstance(value, list):
        return "[" + ", ".join(_inline(each) for each in value if each is not None) + "]"
    return "{" + ", ".join(f"{_key(key)} = {_inline(each)}" for key, each in value.items() if each is not None) + "}"


def _key(text: str) -> str:
    escaped = "".join(f"\\U{ord(sign):08x}" if not 0xD800 <= ord(sign) < 0xE000 else "?" for sign in text)
    return f'"{escaped}"'

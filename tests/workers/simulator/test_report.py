"""What a run adds up to, told in figures, in text, as bounds and as a picture."""

import json
import re
from xml.etree import ElementTree

import pytest

from tests.workers.simulator.worlds import AWAY, HOME, Checked, group, kind, play, scenario
from workers.simulator.gate import METRICS, BoundError, misses, read_bounds
from workers.simulator.picture import draw
from workers.simulator.report import Report, report, to_text
from workers.simulator.scenario import HOUR, Demand, Outage, Scenario, Shortage

TYPES = (kind(HOME, shortages=(Shortage(2 * HOUR, 6 * HOUR),)), kind(AWAY, price=1.0))
PLAYED = scenario(
    group("one", count=3, demand=Demand(1, 4), home_after_seconds=600.0),
    group("two", count=2),
    types=TYPES,
    outages=(Outage(HOUR, 1.2 * HOUR),),
)


@pytest.fixture(scope="module")
def found() -> Report:
    return play(PLAYED)


def test_time_and_money_add_up_where_nothing_happens() -> None:
    total = play(scenario(group(count=2, demand=Demand(3, 3)), types=(kind(HOME, price=2.0), kind(AWAY)), hours=10)).total
    assert total.hours_by_type[HOME] == pytest.approx(6 * 10, abs=6 * 0.05)
    assert total.spend == pytest.approx(6 * 10 * 2.0, rel=0.001)
    assert total.spend_by_type == {HOME: total.spend}


def test_what_is_wanted_and_never_comes_counts_against_availability() -> None:
    dry = (kind(HOME, slots=0), kind(AWAY, slots=0))
    total = play(scenario(group(count=2, provision_seconds=600.0), types=dry, hours=1)).total
    assert (total.availability, total.at_least_one, total.preferred_share) == (0.0, 0.0, None)
    late = play(scenario(group(provision_seconds=3600.0), types=dry, hours=0.5)).total
    assert (late.failed, late.availability) == (0, 0.0)


def test_the_total_is_the_sum_of_the_groups(found: Report) -> None:
    groups = [figures for name, figures in found.groups.items() if name != "total"]
    for metric in ("endpoints", "launches", "refused", "moves", "crashes", "throttled"):
        assert getattr(found.total, metric) == sum(getattr(each, metric) for each in groups)
    assert found.total.spend == pytest.approx(sum(each.spend for each in groups), abs=0.02)


def test_json_says_what_the_report_says(found: Report) -> None:
    read = json.loads(found.to_json())
    assert read["groups"]["total"]["launches"] == found.total.launches
    assert list(read["groups"]) == ["one", "two", "total"]


def test_the_table_has_a_line_for_each_group_and_type(found: Report) -> None:
    text = to_text(found)
    for name in ("one", "two", "total", HOME, AWAY):
        assert re.search(rf"^{re.escape(name)} ", text, re.MULTILINE)
    assert "100.000 %" in text


def test_nearly_all_is_not_shown_as_all() -> None:
    total = play(scenario(group(count=30, crashes_per_day=0.5), hours=24)).total
    assert total.availability is not None
    assert total.availability < 1.0
    assert "100.000 %" not in to_text(Report("t", 1, 1.0, {"g": total, "total": total})).split("g  ", 1)[1].split("%")[0]


def test_bounds_name_what_missed(found: Report) -> None:
    names = ["one", "two"]
    kept = read_bounds(["availability=0.5", "one.at_least_one=0.9"], ["failed=0"], names)
    assert misses(found, kept) == []
    missed = misses(found, read_bounds(["two.availability=1.1"], ["spend=1"], names))
    assert len(missed) == 2
    assert missed[0].startswith("availability of two is ")
    assert missed[0].endswith(", below 1.1")
    assert missed[1].startswith("spend of total is ")
    assert missed[1].endswith(", above 1")


def test_a_bound_on_nothing_is_missed() -> None:
    dry = play(scenario(group(provision_seconds=600.0), types=(kind(HOME, slots=0), kind(AWAY, slots=0)), hours=1))
    assert "no value" in misses(dry, read_bounds(["preferred_share=0.1"], [], ["g"]))[0]


@pytest.mark.parametrize("text", ["", "availability", "availability=", "availability=x", "availability=nan", "beauty=1"])
def test_a_bound_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(BoundError, match="is no bound: write METRIC=NUMBER"):
        read_bounds([text], [], [])


def test_a_bound_on_a_group_there_is_not_is_refused() -> None:
    with pytest.raises(BoundError, match="no group 'three'; there are one, total"):
        read_bounds(["three.availability=1"], [], ["one"])


def test_a_group_name_may_hold_dots() -> None:
    assert read_bounds(["a.b.failed=0"], [], ["a.b"])[0].group == "a.b"
    assert "availability" in METRICS


# The picture.


def picture(played: Scenario) -> str:
    """The drawing of a run."""
    simulation = Checked(played)
    return draw(played, simulation.run())


def test_the_picture_is_sound_and_says_what_it_shows() -> None:
    root = ElementTree.fromstring(picture(PLAYED))
    words = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    for word in ("a test", HOME, AWAY, "wanted", "provider outage", "Launch calls", "Capacity marks", "Instances"):
        assert word in words
    assert any("since the start" in word for word in words)


def test_nothing_is_drawn_outside_the_picture() -> None:
    root = ElementTree.fromstring(picture(PLAYED))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        left, top = float(box.attrib["x"]), float(box.attrib["y"])
        assert 0 <= left <= left + float(box.attrib["width"]) <= width + 0.01
        assert 0 <= top <= top + float(box.attrib["height"]) <= height + 0.01
    for path in root.iter("{http://www.w3.org/2000/svg}path"):
        points = re.findall(r"(-?[\d.]+),(-?[\d.]+)", path.attrib["d"])
        assert points
        assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in points)


def test_a_name_is_never_markup() -> None:
    types = (kind("<b>&", shortages=(Shortage(0, HOUR),)), kind(AWAY))
    svg = picture(scenario(group("g", "<b>&", AWAY), types=types))
    assert "<b>" not in svg
    assert ElementTree.fromstring(svg) is not None


def test_many_types_share_a_colour_and_a_lane() -> None:
    names = [f"ml.t{number}.large" for number in range(12)]
    groups = [group(f"g{number}", name) for number, name in enumerate(names)]
    svg = picture(scenario(*groups, types=[kind(name) for name in names], hours=1))
    assert "other types" in svg


def test_a_quiet_run_is_drawn_too() -> None:
    assert "nothing was ever short" in picture(scenario(group(), hours=1))


def test_the_same_run_is_the_same_picture() -> None:
    assert picture(PLAYED) == picture(PLAYED)


def test_report_needs_a_closed_ledger_only() -> None:
    simulation = Checked(PLAYED)
    ledger = simulation.run()
    assert report(PLAYED, ledger).to_json() == report(PLAYED, ledger).to_json()

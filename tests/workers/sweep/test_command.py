"""`manage.py orphans`: what operators see and what they can do."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.workers.plane import FIRST, Plane
from tests.workers.sweep.strays import OLD, Strays


def said(*arguments: str) -> str:
    """What the command prints."""
    out = StringIO()
    call_command("orphans", *arguments, stdout=out)
    return out.getvalue()


def test_the_report_has_type_zone_age_endpoint_and_state(plane: Plane, strays: Strays) -> None:
    assert said() == "No orphans.\n"
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle()
    plane.world.set_capacity(FIRST, 1)
    late = strays.launch_late()
    strays.set_mode("report")
    strays.sweep(after=3 * 3600)
    report = said()
    (line,) = [line for line in report.splitlines() if line.startswith(late.provider_id) and "found" in line]
    assert line.split()[:4] == [late.provider_id, FIRST, late.zone, "3"]
    assert line.split()[5:7] == [late.token[:8], "e"]
    assert "closed as refused" in report
    assert "1 orphan live" in report


def test_prices_are_shown_where_they_are_known(plane: Plane, strays: Strays) -> None:
    strays.remember()
    strays.launch(instance_type="ml.rack.unheard-of")
    strays.launch(instance_type="ml.g5.2xlarge")
    strays.set_mode("report")
    strays.sweep(after=2 * 3600)
    lines = {line.split()[1]: line.split() for line in said().splitlines() if " found" in line}
    assert lines["ml.rack.unheard-of"][-3:-1] == ["?", "?"]
    hourly, spent = (float(word) for word in lines["ml.g5.2xlarge"][-3:-1])
    assert spent == pytest.approx(2 * hourly, rel=0.01)
    assert "(1 of unknown price not counted)" in said()


def test_an_operator_may_end_one_even_when_the_sweep_only_reports(plane: Plane, strays: Strays) -> None:
    strays.remember()
    one, other = strays.launch(), strays.launch()
    strays.set_mode("report")
    strays.sweep(after=OLD)
    assert "an operator asked for it" in said("--kill", one.provider_id)
    assert strays.ids == [other.provider_id]
    with pytest.raises(CommandError, match="there is no orphan 'nonsense'"):
        said("--kill", "nonsense")


def test_an_operator_may_have_one_adopted_if_its_endpoint_lacks_it(plane: Plane, strays: Strays) -> None:
    strays.set_mode("report")
    plane.world.set_capacity(FIRST, 0)
    plane.create(types=(FIRST,))
    plane.settle(1)
    plane.world.set_capacity(FIRST, 2)
    late, unknown = strays.launch_late(), strays.launch()
    strays.sweep(after=OLD)
    with pytest.raises(CommandError, match="nothing is known of its launch"):
        said("--adopt", unknown.provider_id)
    assert "is adopted" in said("--adopt", late.provider_id)
    plane.settle(8)
    assert plane.status() == "InService"
    assert "adopted" in said("--all")


def test_surplus_is_not_adopted(plane: Plane, strays: Strays) -> None:
    strays.set_mode("report")
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle()
    plane.world.set_capacity(FIRST, 1)
    late = strays.launch_late()
    strays.sweep(after=OLD)
    with pytest.raises(CommandError, match="lacks no instance"):
        said("--adopt", late.provider_id)


def test_a_dry_run_says_what_a_sweep_would_do_and_does_nothing(plane: Plane, strays: Strays) -> None:
    strays.remember()
    stray = strays.launch()
    plane.clock.step(OLD)
    assert f"{stray.provider_id}  {FIRST}  end: no endpoint has it" in said("--dry-run")
    assert strays.ids == [stray.provider_id]
    assert strays.states == []
    assert strays.told() == []


def test_a_held_back_sweep_says_so_and_goes_on_once_confirmed(plane: Plane, strays: Strays) -> None:
    stray = strays.launch()
    strays.sweep(after=3600)
    assert said().startswith("HELD BACK since")
    assert "1 orphan" in said("--confirm")
    assert strays.sweep(after=10) == [stray.provider_id]

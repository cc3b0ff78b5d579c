"""`manage.py simulate`, and the scenarios that come with the product, for a short while of each."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.workers.simulator.worlds import SHIPPED

HERE = {path.stem: path for path in SHIPPED}
SHORT_DAYS = {"fleet-of-10000": 0.05, "regional-shortage": 2.2, "herd-after-outage": 0.26}


def simulate(*arguments: object) -> str:
    """What the command writes."""
    out = StringIO()
    call_command("simulate", *(str(argument) for argument in arguments), stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("name", sorted(HERE))
def test_a_shipped_scenario_plays(name: str, tmp_path: Path) -> None:
    days = SHORT_DAYS.get(name, 0.5)
    written, picture = tmp_path / "report.json", tmp_path / "picture.svg"
    out = simulate(HERE[name], "--days", days, "--json", written, "--picture", picture)
    total = json.loads(written.read_text())["groups"]["total"]
    assert total["launches"] > 0
    assert f"{total['endpoints']:,} endpoints" in out
    assert picture.read_text().startswith("<svg")


def test_the_same_command_writes_the_same_bytes(tmp_path: Path) -> None:
    written = [tmp_path / "one.json", tmp_path / "two.json"]
    texts = [simulate(HERE["flapping-type"], "--days", 0.3, "--json", path) for path in written]
    assert texts[0] == texts[1]
    assert written[0].read_bytes() == written[1].read_bytes()


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    one, other = (simulate(HERE["flapping-type"], "--days", 0.3, "--seed", seed) for seed in (1, 2))
    assert one != other


def test_a_bound_that_is_not_kept_fails_the_command_and_is_named() -> None:
    arguments = (HERE["regional-shortage"], "--days", 0.1)
    assert simulate(*arguments, "--fail-below", "availability=0.5", "--fail-above", "failed=0")
    with pytest.raises(CommandError, match=r"^Not kept: availability of chat is 0\.\d+, below 1\.$"):
        simulate(*arguments, "--fail-below", "chat.availability=1")


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(HERE["daily-demand"], "--days", 0.3, "--progress")
    assert " events and " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.toml",), "missing.toml"),
        ((HERE["flapping-type"], "--days", 1000), "days: must be a number from 0.01 to 366, is 1000"),
        ((HERE["flapping-type"], "--fail-below", "beauty=1"), "is no bound"),
        ((HERE["flapping-type"], "--fail-below", "nobody.failed=1"), "no group 'nobody'"),
        ((HERE["flapping-type"], "--picture", "x.png"), "name it FILE.svg, not x.png"),
        ((HERE["flapping-type"], "--days", 0.01, "--json", "/no/such/place.json"), "/no/such/place.json"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(CommandError) as caught:
        simulate(*arguments)
    assert message in str(caught.value)


def test_a_file_that_is_no_scenario_is_told_all_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('title = "t"\n')
    with pytest.raises(CommandError) as caught:
        simulate(path)
    for field in ("days: is missing", "types: is missing", "endpoints: is missing"):
        assert field in str(caught.value)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="codec"):
        simulate(path)

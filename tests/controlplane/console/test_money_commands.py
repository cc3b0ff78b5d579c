"""The commands for operators: previews, spend, quotas, and the story of an endpoint."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.controlplane.invocations.letters import endpoint, letter
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers import offers


def said(*arguments: str) -> str:
    """What a command prints."""
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_preview_tells_where_at_what_cost_and_why(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create("other")
    plane.settle()
    offers.tell(plane.clock.now())
    told = said("preview", "--config", "other")
    assert "Variant v: 1 instance wanted\n" in told
    assert f"1 x {SECOND} (priority 2) in simulated-a at 0.53 USD/h ({FIRST} skipped until" in told
    assert "Cost: 0.53 USD an hour, 12.62 USD a day." in told
    assert "Ready: after" in told


def test_preview_reads_a_file_and_tags(plane: Plane, tmp_path: Path) -> None:
    offers.tell(plane.clock.now())
    file = tmp_path / "config.json"
    variant = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": THIRD}
    file.write_text(json.dumps({"ProductionVariants": [variant]}))
    told = said("preview", "--file", str(file), "--tag", "headrace:max-hourly-price=0.01")
    assert "1 without a place" in told
    assert "costs 0.10 USD/h and 0.01 is left below the endpoint's ceiling" in told


@pytest.mark.parametrize(
    ("content", "tag", "sentence"),
    [
        ("{", "a=b", "cannot be read as JSON"),
        ("{}", "a=b", "no list ProductionVariants"),
        ('[{"VariantName": "v"}]', "a=b", "must specify"),
        ("[]", "nothing", "productionVariants"),
    ],
)
def test_preview_says_what_is_wrong_with_its_input(
    plane: Plane, tmp_path: Path, content: str, tag: str, sentence: str
) -> None:
    offers.tell(plane.clock.now())
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(CommandError, match=sentence):
        said("preview", "--file", str(file), "--tag", tag)


def test_spend_adds_up_over_types_and_endpoints(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 1)
    plane.create("a", count=2)
    plane.create("b", types=(THIRD,))
    plane.settle()
    plane.clock.step(3600 - 5.25)
    told = said("spend")
    assert "a (InService): 1.74 USD for 2.00 instance hours; 2 running, 1.74 USD/h" in told
    assert "All endpoints of account 123456789012: 1.83 USD for 3.00 instance hours" in told
    assert "b (InService)" not in said("spend", "a")
    with pytest.raises(CommandError, match="No endpoint named 'c'"):
        said("spend", "c")


def test_what_has_ended_is_still_part_of_the_spend(plane: Plane) -> None:
    plane.create("a", count=2)
    plane.settle()
    plane.clock.step(3600)
    plane.scale("a", 1)
    plane.settle(20)
    told = said("spend", "a")
    assert "for 2.01 instance hours; 1 running" in told


def test_a_quota_is_set_shown_and_dropped(plane: Plane) -> None:
    plane.create(types=(FIRST,))
    plane.settle()
    assert said("quota", FIRST, "4").split() == [FIRST, "1", "of", "4", "in", "use"]
    assert said("quota", "*", "9").split() == ["*", "1", "of", "9", "in", "use"]
    assert len(said("quota").splitlines()) == 2
    assert "no limit" in said("quota", FIRST, "--drop")
    for arguments in (("ml.nope", "1"), (FIRST, "-1"), (SECOND, "--drop"), ("--drop",), ("--account", "1")):
        with pytest.raises(CommandError):
            said("quota", *arguments)


def test_explain_tells_the_ladder_the_spend_and_the_story(plane: Plane) -> None:
    offers.tell(plane.clock.now())
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle()
    told = said("explain", "e")
    assert "Endpoint e is InService (configuration e). Its instances are kept at their number" in told
    assert "Variant v: 1 of 1 serving" in told
    assert f"priority 1  {FIRST}" in told
    assert "asked 1 time, 1 refused" in told
    assert "last failure capacity: There is no ml.g5.2xlarge capacity" in told
    assert "Spent: 0.00 USD for 0.00 instance hours; 1 running, 0.53 USD/h" in told
    assert "PoolRefused" in told


def test_explain_tells_what_waits_at_an_asynchronous_endpoint(plane: Plane) -> None:
    now = plane.clock.now()
    at = endpoint(now, "later")
    assert "  Queue: 0 waiting; 0 running; 0 failed or expired.\n" in said("explain", "later")
    for state in ("queued", "queued", "failed", "expired"):
        letter(at, now, state)
    waiting, dead = f"2 waiting, the next since {now:%H:%M:%S}", "2 failed or expired (1 expired, 1 model_server_error)"
    assert f"  Queue: {waiting}; 0 running; {dead}.\n" in said("explain", "later")


def test_explain_of_an_endpoint_that_answers_at_once_tells_no_queue(plane: Plane) -> None:
    plane.create()
    plane.settle()
    assert "Queue" not in said("explain", "e")


def test_explain_still_tells_the_story_of_what_is_gone(plane: Plane) -> None:
    plane.create()
    plane.settle()
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle(10)
    assert "Endpoint e no longer exists. Its story:" in said("explain", "e")
    with pytest.raises(CommandError, match="No endpoint named 'f' is or was known"):
        said("explain", "f")

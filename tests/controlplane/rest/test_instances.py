"""An endpoint's instances over REST: listed, drained, replaced; and coming home, paused and resumed."""

from typing import Any

from controlplane.fleet.models import GatewayHeartbeat, Instance
from controlplane.fleet.states import InstanceStage
from tests.controlplane.rest.conftest import OTHER_ACCOUNT, Ask
from tests.workers.plane import FIRST, Plane

PATH = "/api/v1/endpoints/e"


def serving(plane: Plane, **config: Any) -> str:
    """An endpoint in service; the id of its instance."""
    plane.create(**config)
    plane.until(lambda: plane.status() == "InService")
    return str(Instance.objects.get().id)


def test_instances_are_listed_with_stage_reason_and_calls(plane: Plane, ask: Ask) -> None:
    instance_id = serving(plane)
    GatewayHeartbeat.objects.create(
        gateway_id="g", seen_at=plane.clock.now(), table_age_seconds=0, in_flight={instance_id: 3}
    )
    found = ask("GET", f"{PATH}/instances")
    assert found.status == 200
    (row,) = found.body["Instances"]
    assert (row["InstanceId"], row["InstanceType"], row["Stage"]) == (instance_id, FIRST, "ready")
    assert (row["InFlight"], row["Leave"], row["VariantName"]) == (3, "", "v")
    assert "serves" in row["Reason"]


def test_draining_and_replacing_answer_with_the_wish_and_who_had_it(plane: Plane, ask: Ask) -> None:
    instance_id = serving(plane)
    replaced = ask("POST", f"{PATH}/instances/{instance_id}/replace")
    assert (replaced.status, replaced.body["Leave"]) == (200, "replace")
    assert replaced.body["LeaveAskedBy"]
    drained = ask("POST", f"{PATH}/instances/{instance_id}/drain")
    assert (drained.status, drained.body["Leave"]) == (200, "drain")
    plane.settle(0)
    assert Instance.objects.get(pk=instance_id).stage == InstanceStage.TERMINATING
    assert ask("POST", f"{PATH}/instances/{instance_id}/replace").code == "ValidationException"


def test_another_account_finds_nothing_to_drain(plane: Plane, ask: Ask) -> None:
    instance_id = serving(plane)
    for method, path in (("GET", "instances"), ("POST", f"instances/{instance_id}/drain")):
        found = ask(method, f"{PATH}/{path}", account=OTHER_ACCOUNT)
        assert found.code == "ValidationException"
        assert "Could not find" in found.body["message"]
    assert Instance.objects.get(pk=instance_id).leave == ""


def test_an_instance_that_there_is_not_is_said_to_be_missing(plane: Plane, ask: Ask) -> None:
    serving(plane)
    found = ask("POST", f"{PATH}/instances/00000000-0000-0000-0000-000000000000/drain")
    assert found.code == "ResourceNotFound"


def test_coming_home_is_paused_and_resumed(plane: Plane, ask: Ask) -> None:
    serving(plane, tags={"headrace:coming-home": "10m"})
    paused = ask("POST", f"{PATH}/coming-home/pause")
    assert paused.status == 200
    assert paused.body["PausedAt"]
    assert paused.body["PausedBy"]
    resumed = ask("POST", f"{PATH}/coming-home/resume")
    assert (resumed.body["PausedAt"], resumed.body["PausedBy"]) == (None, "")


def test_what_does_not_come_home_cannot_be_paused(plane: Plane, ask: Ask) -> None:
    serving(plane)
    assert ask("POST", f"{PATH}/coming-home/pause").code == "ValidationException"

"""The trial of an endpoint's topics: what its plan makes of it, and what becomes of the endpoint."""

from datetime import timedelta

import pytest

from controlplane.endpoints.models import Endpoint as EndpointRow
from controlplane.invocations.models import AsyncNotification
from tests.fakes.clock import START as NOW
from tests.workers.plane import FIRST, SECOND, Plane
from workers.fleet.actions import Advance, EnterService, GiveUp, Plan, RollBack
from workers.fleet.topics import gate
from workers.fleet.view import Deployment, DeploymentStage, Endpoint, Phase, Topics, Variant

DONE, BROKEN = "arn:aws:sns:us-east-1:123456789012:done", "arn:aws:sns:us-east-1:123456789012:broken"
NOTIFYING = {"NotificationConfig": {"SuccessTopic": DONE, "ErrorTopic": BROKEN}}
VARIANT = Variant(1, "v", 1, ())
SERVE = Plan((EnterService("in service"),), NOW + timedelta(seconds=300), "All is well.")


def endpoint(phase: Phase, topics: Topics, deployment: Deployment | None = None) -> Endpoint:
    return Endpoint("id", "e", phase, (VARIANT,), topics=topics, deployment=deployment)


@pytest.mark.parametrize("phase", [Phase.CREATING, Phase.UPDATING])
def test_an_operation_does_not_end_while_a_test_is_under_way(phase: Phase) -> None:
    found = gate(endpoint(phase, Topics(waiting=2)), SERVE, NOW)
    assert found.actions == ()
    assert found.look_again_at <= NOW + timedelta(seconds=1)
    assert "2 test notifications" in found.why


@pytest.mark.parametrize("phase", [Phase.CREATING, Phase.UPDATING])
def test_a_refusal_fails_the_operation(phase: Phase) -> None:
    found = gate(endpoint(phase, Topics(refusal="Denied.")), SERVE, NOW)
    assert found.actions == (GiveUp(VARIANT, "Denied."),)


def test_a_refusal_turns_a_deployment_back_once() -> None:
    deployment = Deployment(2, DeploymentStage.PENDING, NOW)
    decided = Plan((Advance(DeploymentStage.PROVISIONING, 1, "begins", {}),), NOW, "")
    assert gate(endpoint(Phase.UPDATING, Topics(waiting=1), deployment), decided, NOW).actions == ()
    (action,) = gate(endpoint(Phase.UPDATING, Topics(refusal="Denied."), deployment), decided, NOW).actions
    assert isinstance(action, RollBack)
    assert action.reason == "Denied."
    back = Deployment(2, DeploymentStage.ROLLING_BACK, NOW)
    assert gate(endpoint(Phase.UPDATING, Topics(refusal="Denied."), back), decided, NOW) == decided


@pytest.mark.parametrize("phase", [Phase.IN_SERVICE, Phase.ROLLING_BACK, Phase.DELETING, Phase.FAILED])
def test_an_endpoint_at_rest_or_on_its_way_out_minds_no_topics(phase: Phase) -> None:
    for topics in (Topics(waiting=1), Topics(refusal="Denied.")):
        assert gate(endpoint(phase, topics), SERVE, NOW) == SERVE


# The endpoint.


def tried() -> list[str]:
    """The topics that are being tried."""
    rows = AsyncNotification.objects.filter(endpoint_name="e", kind="test", given_up_at=None)
    return list(rows.order_by("id").values_list("topic", flat=True))


def take(plane: Plane) -> None:
    """Every topic takes its test."""
    AsyncNotification.objects.all().delete()
    EndpointRow.objects.update(look_again_at=plane.clock.now())


def refuse(plane: Plane, topic: str, error: str = "AuthorizationError: not allowed") -> None:
    """One topic refuses its test."""
    AsyncNotification.objects.filter(topic=topic).update(given_up_at=plane.clock.now(), last_error=error)
    EndpointRow.objects.update(look_again_at=plane.clock.now())


def serve(plane: Plane, **config: object) -> None:
    """An endpoint with topics, in service."""
    plane.create(asynchronous=NOTIFYING, types=(FIRST,), **config)
    take(plane)
    plane.settle(10)
    assert plane.status() == "InService"


def test_creation_waits_for_its_topics_and_tells_so(plane: Plane) -> None:
    plane.create(asynchronous=NOTIFYING, types=(FIRST,))
    assert tried() == [DONE, BROKEN]
    plane.settle(30)
    assert plane.status() == "Creating"
    assert (
        "2 test notifications"
        in plane.describe()["PendingDeploymentSummary"]["ProductionVariants"][0]["VariantStatus"][0]["StatusMessage"]
    )
    take(plane)
    plane.settle(2)
    assert plane.status() == "InService"
    assert plane.describe()["AsyncInferenceConfig"]["OutputConfig"]["NotificationConfig"] == {
        "SuccessTopic": DONE,
        "ErrorTopic": BROKEN,
    }


def test_a_topic_that_refuses_fails_the_creation_and_names_role_and_permission(plane: Plane) -> None:
    plane.create(asynchronous=NOTIFYING, types=(FIRST,))
    refuse(plane, BROKEN)
    plane.settle(10)
    assert plane.status() == "Failed"
    reason = plane.describe()["FailureReason"]
    assert all(word in reason for word in (BROKEN, "role", "sns:Publish", "AuthorizationError"))
    assert plane.live() == {}


def test_a_change_of_capacity_tries_the_topics_again_and_is_undone_by_a_refusal(plane: Plane) -> None:
    serve(plane)
    plane.scale("e", 2)
    assert tried() == [DONE, BROKEN]
    refuse(plane, DONE)
    plane.settle(20)
    assert plane.status() == "InService"
    assert "sns:Publish" in plane.describe()["FailureReason"]
    assert plane.counts() == {FIRST: 1}


def test_an_update_tries_the_new_topics_and_is_rolled_back_by_a_refusal(plane: Plane) -> None:
    serve(plane)
    other = "arn:aws:sns:us-east-1:123456789012:other"
    asynchronous = {"NotificationConfig": {"SuccessTopic": other}}
    plane.configure("next", types=(SECOND,), asynchronous=asynchronous)
    plane.update(config="next")
    assert tried() == [other]
    plane.settle(5)
    assert plane.live() == {FIRST: 1}
    refuse(plane, other)
    plane.settle(20)
    assert plane.status() == "InService"
    assert "sns:Publish" in plane.describe()["FailureReason"]
    assert plane.describe()["EndpointConfigName"] == "e"


def test_an_update_goes_on_once_its_topics_took_their_tests(plane: Plane) -> None:
    serve(plane)
    plane.configure("next", types=(SECOND,), asynchronous=NOTIFYING)
    plane.update(config="next")
    take(plane)
    plane.until(lambda: plane.status() == "InService")
    assert plane.describe()["EndpointConfigName"] == "next"


def test_an_endpoint_without_topics_tries_none(plane: Plane) -> None:
    plane.create(asynchronous=True, types=(FIRST,))
    plane.create("calls", types=(FIRST,))
    plane.settle(10)
    assert (plane.status(), plane.status("calls")) == ("InService", "InService")
    assert not AsyncNotification.objects.exists()

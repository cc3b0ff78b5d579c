"""The resource paths through the front door of a running Headrace, signed by botocore."""

from typing import Any

from tests.system.raw import Answer, ask, send
from tests.system.stack import FIRST, SECOND, Stack, create_endpoint, delete_endpoint, in_service


def preview(stack: Stack, variant: dict[str, Any]) -> Answer:
    """A preview of one inline variant."""
    return ask(stack, "POST", "/api/v1/placement-previews", {"ProductionVariants": [variant]})


def test_an_endpoint_lands_where_its_preview_said_and_explains_itself(stack: Stack) -> None:
    pools = [{"InstanceType": kind, "Priority": place} for place, kind in enumerate((FIRST, SECOND), start=1)]
    variant = {"VariantName": "main", "ModelName": "m", "InitialInstanceCount": 1, "InstancePools": pools}
    for kind, slots in ((FIRST, 0), (SECOND, 3)):
        stack.set_capacity(kind, slots)  # whatever other tests have left to remember
    found = stack.wait(lambda: (answer := preview(stack, variant)).status == 200 and answer).document
    [landing] = found["Variants"][0]["Landings"]
    assert (landing["InstanceType"], landing["IsCertain"]) == (SECOND, True)
    assert found["HourlyCost"] == 0.526
    create_endpoint(stack, "explained", types=(FIRST, SECOND))
    in_service(stack, "explained")
    told = ask(stack, "GET", "/api/v1/endpoints/explained/explanation").document
    assert told["EndpointStatus"] == "InService"
    assert [instance["InstanceType"] for instance in told["Variants"][0]["Instances"]] == [SECOND]
    assert told["Spend"]["HourlyDollars"] == 0.526
    events = ask(stack, "GET", "/api/v1/endpoints/explained/events?MaxResults=5").document
    assert len(events["Events"]) == 5
    delete_endpoint(stack, "explained")


def test_the_door_refuses_what_is_not_signed_and_hands_out_the_schema(stack: Stack) -> None:
    refused = send(stack, "GET", "/api/v1/capacity-marks", {}, b"")
    assert (refused.status, refused.code) == (403, "MissingAuthenticationTokenException")
    schema = send(stack, "GET", "/api/v1/schema/", {}, b"")
    assert schema.status == 200
    assert "/api/v1/placement-previews" in schema.document["paths"]


def test_a_body_over_the_cap_never_reaches_the_api(stack: Stack) -> None:
    refused = preview(stack, {"VariantName": "x" * (4 * 1024 * 1024)})
    assert refused.status == 413

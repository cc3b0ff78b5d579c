"""The resource paths: what they tell, to whom, and how they refuse."""

import pytest
from django.test import Client

from controlplane.fleet.models import CapacityMark
from tests.controlplane.rest.conftest import OTHER_ACCOUNT, Ask
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers import offers

VARIANT = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 2, "InstanceType": THIRD}
PREVIEWS = "/api/v1/placement-previews"


def stuck(plane: Plane) -> None:
    """An endpoint that is Creating, since neither of its types is to be had."""
    plane.world.set_capacity(FIRST, 0)
    plane.world.set_capacity(SECOND, 0)
    plane.create()
    plane.settle(10)
    assert plane.status() == "Creating"


def test_an_explanation_tells_the_ladder_while_the_endpoint_is_still_creating(plane: Plane, ask: Ask) -> None:
    offers.tell(plane.clock.now())
    stuck(plane)
    found = ask("GET", "/api/v1/endpoints/e/explanation")
    assert found.status == 200
    told = found.body
    assert (told["EndpointName"], told["EndpointStatus"]) == ("e", "Creating")
    [variant] = told["Variants"]
    assert variant["DesiredInstanceCount"] == 1
    assert variant["GivesUpAt"] is not None
    first, second = variant["Ladder"]
    assert (first["Rung"]["InstanceType"], second["Rung"]["InstanceType"]) == (FIRST, SECOND)
    for step in (first, second):
        assert step["State"] == "tried"
        assert step["Rung"]["Standing"] == "closed"
        assert step["Asked"] == step["Refused"] >= 1
        assert step["ErrorKind"] == "capacity"
        assert step["NextTryAt"] >= told["At"]
    assert "PoolRefused" in {event["Reason"] for event in told["Events"]}


def test_an_explanation_tells_instances_and_spend_once_there_are_some(plane: Plane, ask: Ask) -> None:
    plane.create()
    plane.settle()
    plane.clock.step(200)
    told = ask("GET", "/api/v1/endpoints/e/explanation").body
    [instance] = told["Variants"][0]["Instances"]
    assert (instance["Stage"], instance["HourlyPrice"]) == ("ready", 1.212)
    hours = told["Spend"]["InstanceHours"]
    assert hours == pytest.approx(205 / 3600, abs=0.001)
    assert told["Spend"]["Dollars"] == pytest.approx(hours * 1.212)
    assert told["SpendByPool"][0]["InstanceType"] == FIRST
    assert all(step["NextTryAt"] is None for step in told["Variants"][0]["Ladder"]), "nothing is missing"


def test_a_preview_of_a_stored_configuration_and_of_inline_variants(plane: Plane, ask: Ask) -> None:
    offers.tell(plane.clock.now())
    plane.create()
    stored = ask("POST", PREVIEWS, {"EndpointConfigName": "e"})
    assert stored.status == 200
    assert stored.body["Variants"][0]["Landings"][0]["InstanceType"] == FIRST
    tags = [{"Key": "headrace:max-hourly-price", "Value": "0.15"}]
    inline = ask("POST", PREVIEWS, {"ProductionVariants": [VARIANT], "Tags": tags})
    assert inline.status == 200
    told = inline.body
    assert told["WouldServe"] is False
    assert told["HourlyCost"] == 0.096
    assert told["Variants"][0]["MissingCount"] == 1
    assert "ceiling" in told["Variants"][0]["Story"][-1]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "exactly one of EndpointConfigName and ProductionVariants"),
        ({"EndpointConfigName": "none"}, "Could not find endpoint configuration"),
        ({"ProductionVariants": [{**VARIANT, "InstanceType": "ml.nope"}]}, "productionVariants.1.member.instanceType"),
        ({"ProductionVariants": [{**VARIANT, "InstanceType": [1]}]}, ""),
        ({"ProductionVariants": [{**VARIANT, "InstancePools": []}]}, "instancePools"),
        ({"ProductionVariants": [VARIANT, VARIANT]}, "used more than once"),
        ({"ProductionVariants": [VARIANT], "Tags": [{"Key": "headrace:surge", "Value": "x"}]}, 'may only be "none"'),
        ({"ProductionVariants": [VARIANT], "Tags": [{"Key": "headrace:nope", "Value": "x"}]}, "is no option"),
        ({"ProductionVariants": [VARIANT], "Tags": [{"Value": "x"}]}, "Tags.0.Key"),
        ({"ProductionVariants": "all"}, "ProductionVariants"),
        ([1], ""),
        (b"{", "JSON"),
        (b"[" * 200_000, "JSON"),
        ({"EndpointConfigName": "\ud800"}, "EndpointConfigName"),
        ({"EndpointConfigName": "\x00"}, "EndpointConfigName"),
        (b'{"EndpointConfigName": "' + b"x" * 3000 + b'"}', ""),
    ],
)
def test_a_preview_that_makes_no_sense_is_refused_in_the_wire_s_form(
    plane: Plane, ask: Ask, body: object, sentence: str
) -> None:
    offers.tell(plane.clock.now())
    found = ask("POST", PREVIEWS, body)
    assert found.status == 400
    assert found.code in ("ValidationException", "SerializationException")
    assert found.body["__type"] == found.code
    assert sentence in found.body["message"]


def test_events_come_latest_first_page_by_page(plane: Plane, ask: Ask) -> None:
    plane.create()
    plane.settle()
    everything = ask("GET", "/api/v1/endpoints/e/events").body["Events"]
    assert [event["Reason"] for event in reversed(everything)] == plane.story()
    pages, token = [], ""
    while token is not None:
        page = ask("GET", f"/api/v1/endpoints/e/events?MaxResults=2{token and '&NextToken=' + token}").body
        pages += page["Events"]
        token = page["NextToken"]
    assert pages == everything


@pytest.mark.parametrize(
    "query", ["MaxResults=0", "MaxResults=501", "MaxResults=x", "NextToken=-1", "NextToken=" + "9" * 30]
)
def test_a_page_that_makes_no_sense_is_refused(plane: Plane, ask: Ask, query: str) -> None:
    plane.create()
    assert ask("GET", f"/api/v1/endpoints/e/events?{query}").code == "ValidationException"


def test_the_story_outlives_its_endpoint(plane: Plane, ask: Ask) -> None:
    plane.create()
    plane.settle()
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle(10)
    assert not plane.exists()
    assert ask("GET", "/api/v1/endpoints/e/events").body["Events"]
    assert ask("GET", "/api/v1/endpoints/e/explanation").code == "ValidationException"


def test_another_account_sees_none_of_it(plane: Plane, ask: Ask) -> None:
    stuck(plane)
    for path in ("/api/v1/endpoints/e/explanation", "/api/v1/endpoints/e/events"):
        found = ask("GET", path, account=OTHER_ACCOUNT)
        assert "Could not find endpoint" in found.body["message"]
    assert ask("POST", PREVIEWS, {"EndpointConfigName": "e"}, account=OTHER_ACCOUNT).status == 400
    seen_by = {mark["SeenBy"] for mark in ask("GET", "/api/v1/capacity-marks").body["CapacityMarks"]}
    assert seen_by == {"e"}
    others = ask("GET", "/api/v1/capacity-marks", account=OTHER_ACCOUNT).body["CapacityMarks"]
    assert {mark["SeenBy"] for mark in others} == {"another account"}


def test_a_forgotten_mark_lets_the_next_search_ask_again(plane: Plane, ask: Ask) -> None:
    stuck(plane)
    marks = ask("GET", "/api/v1/capacity-marks").body["CapacityMarks"]
    mark = next(mark for mark in marks if mark["InstanceType"] == FIRST)
    assert ask("DELETE", f"/api/v1/capacity-marks/{mark['Id']}").status == 204
    assert not CapacityMark.objects.filter(instance_type=FIRST).exists()
    assert ask("DELETE", f"/api/v1/capacity-marks/{mark['Id']}").code == "ResourceNotFound"
    plane.world.set_capacity(FIRST, 1)
    plane.settle(70)
    assert plane.counts() == {FIRST: 1, SECOND: 0}


def test_a_request_needs_a_good_signature(plane: Plane, ask: Ask) -> None:
    plane.create()
    path = "/api/v1/endpoints/e/explanation"
    unsigned = Client().get(path)
    assert (unsigned.status_code, unsigned.headers["x-amzn-ErrorType"]) == (403, "MissingAuthenticationTokenException")
    assert ask("GET", path, secret="wrong").code == "InvalidSignatureException"
    assert ask("GET", path, account="111111111111").code == "UnrecognizedClientException"
    tampered = ask("POST", PREVIEWS, {"EndpointConfigName": "e"}, sent=b'{"EndpointConfigName": "f"}')
    assert (tampered.status, tampered.code) == (403, "InvalidSignatureException")


def test_what_is_not_there_and_what_is_not_allowed_have_the_wire_s_form(plane: Plane, ask: Ask) -> None:
    assert (ask("GET", "/api/v1/nothing").status, ask("DELETE", PREVIEWS).status) == (404, 405)
    assert ask("DELETE", PREVIEWS).body["__type"] == "UnknownOperationException"
    assert ask("GET", "/api/v1/endpoints/%00/events").status == 404


def test_a_body_over_the_cap_is_refused_before_it_is_read(plane: Plane, ask: Ask) -> None:
    found = ask("POST", PREVIEWS, b" " * (4 * 1024 * 1024 + 1))
    assert (found.status, found.code) == (413, "RequestEntityTooLargeException")

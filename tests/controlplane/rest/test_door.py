"""The AWS-named operations as resources: the same handlers, checks and errors as at the AWS door, in the forms of REST.

Every answer here is also held against the OpenAPI document (see `conftest`).
"""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.conf import settings
from django.test import Client

from controlplane.auth.roles import Role
from controlplane.wire.resource import iso
from tests.controlplane.rest.conftest import OTHER_ACCOUNT, Ask
from tests.controlplane.rest.people import browser_of, holding, token_of, user_of
from tests.workers.plane import FIRST, SECOND, Plane

MODELS, CONFIGS, ENDPOINTS, TAGS = (f"/api/v1/{each}" for each in ("models", "endpoint-configs", "endpoints", "tags"))
ALARMS, METRICS = "/api/v1/alarms", "/api/v1/metrics"
MODEL = {"ModelName": "m", "PrimaryContainer": {"Image": "headrace/reference"}}
POOLS = [{"InstanceType": FIRST, "Priority": 1}, {"InstanceType": SECOND, "Priority": 2}]
VARIANT = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 1, "InstancePools": POOLS}
CONFIG = {"EndpointConfigName": "c", "ProductionVariants": [VARIANT]}
ALARM = {
    "AlarmName": "high/errors",
    "Namespace": "Shop",
    "MetricName": "Orders",
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 1.5,
    "ComparisonOperator": "GreaterThanThreshold",
}


def arn(kind: str, name: str) -> str:
    return f"arn:aws:sagemaker:us-east-1:{settings.HEADRACE.account_id}:{kind}/{name}"


def query(**members: Any) -> str:
    return "?" + urlencode(members, doseq=True)


def test_the_life_of_an_endpoint_in_resources(plane: Plane, ask: Ask) -> None:
    made = ask("POST", MODELS, MODEL)
    assert (made.status, made.body, made.headers["Location"]) == (201, {"ModelArn": arn("model", "m")}, f"{MODELS}/m")
    assert made.headers["x-amzn-RequestId"]
    assert ask("POST", CONFIGS, CONFIG).headers["Location"] == f"{CONFIGS}/c"
    made = ask("POST", ENDPOINTS, {"EndpointName": "e", "EndpointConfigName": "c"})
    assert (made.status, made.body, made.headers["Location"]) == (
        201,
        {"EndpointArn": arn("endpoint", "e")},
        f"{ENDPOINTS}/e",
    )
    assert ask("GET", f"{ENDPOINTS}/e").body["EndpointStatus"] == "Creating"
    plane.settle()
    told = ask("GET", f"{ENDPOINTS}/e").body
    assert (told["EndpointStatus"], told["EndpointConfigName"]) == ("InService", "c")
    assert told["ProductionVariants"][0]["InstancePools"][0] == {"InstanceType": FIRST, "CurrentInstanceCount": 1}
    wish = {"DesiredWeightsAndCapacities": [{"VariantName": "v", "DesiredInstanceCount": 2}]}
    assert ask("POST", f"{ENDPOINTS}/e/weights-and-capacities", wish).status == 200
    plane.settle()
    assert plane.counts() == {FIRST: 2, SECOND: 0}
    assert ask("POST", CONFIGS, {**CONFIG, "EndpointConfigName": "next"}).status == 201
    assert ask("PUT", f"{ENDPOINTS}/e", {"EndpointConfigName": "next"}).status == 200
    plane.until(lambda: plane.describe()["EndpointConfigName"] == "next" and plane.status() == "InService")
    gone = ask("DELETE", f"{ENDPOINTS}/e")
    assert (gone.status, gone.content) == (204, b"")
    plane.settle(10)
    assert not plane.exists()
    for path in (f"{CONFIGS}/c", f"{MODELS}/m"):
        assert ask("GET", path).status == 200
        assert ask("DELETE", path).status == 204
        assert ask("GET", path).code == "ValidationException"


def test_times_are_text_with_milliseconds_and_filters_take_them_back(plane: Plane, ask: Ask) -> None:
    ask("POST", MODELS, MODEL)
    created = ask("GET", f"{MODELS}/m").body["CreationTime"]
    assert created == iso(plane.clock.now())
    assert (len(created), created[-1]) == (len("2026-01-31T12:00:00.000Z"), "Z")

    def names(**members: Any) -> list[str]:
        return [each["ModelName"] for each in ask("GET", MODELS + query(**members)).body["Models"]]

    assert names(CreationTimeAfter=created) == ["m"]
    assert names(CreationTimeAfter=iso(plane.clock.now() + timedelta(seconds=1))) == []
    shifted = plane.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "+00:30")
    assert names(CreationTimeAfter=shifted) == ["m"], "half an hour earlier"


def test_pages_are_those_of_the_aws_door(plane: Plane, ask: Ask) -> None:
    for name in ("a1", "a2", "a3", "b1"):
        assert ask("POST", MODELS, {**MODEL, "ModelName": name}).status == 201
        plane.clock.step(1)
    members = {"MaxResults": 2, "NameContains": "a", "SortBy": "Name", "SortOrder": "Ascending"}
    first = ask("GET", MODELS + query(**members)).body
    assert [each["ModelName"] for each in first["Models"]] == ["a1", "a2"]
    second = ask("GET", MODELS + query(**members, NextToken=first["NextToken"])).body
    assert [each["ModelName"] for each in second["Models"]] == ["a3"]
    assert "NextToken" not in second
    assert (
        plane.call("ListModels", MaxResults=2, NameContains="a", SortBy="Name", SortOrder="Ascending")["NextToken"]
        == (first["NextToken"])
    )


def test_all_violations_come_in_one_answer_and_nothing_is_made(plane: Plane, ask: Ask) -> None:
    wrong = {**VARIANT, "InitialInstanceCount": 0, "InstancePools": [{"InstanceType": "ml.nope", "Priority": 9}]}
    found = ask("POST", CONFIGS, {"EndpointConfigName": "-", "ProductionVariants": [wrong], "KmsKeyId": "k"})
    assert (found.status, found.code, found.body["__type"]) == (400, "ValidationException", "ValidationException")
    assert found.body["message"].startswith("5 validation errors detected: ")
    for part in (
        "'endpointConfigName'",
        "productionVariants.1.member.initialInstanceCount",
        "productionVariants.1.member.instancePools.1.member.priority",
        "Member KmsKeyId is not supported by Headrace",
    ):
        assert part in found.body["message"]
    assert ask("GET", CONFIGS).body == {"EndpointConfigs": []}


def test_a_query_s_violations_come_in_one_answer_too(ask: Ask) -> None:
    found = ask("GET", ENDPOINTS + query(MaxResults=0, SortBy="Colour", StatusEquals="Well"))
    assert found.code == "ValidationException"
    assert found.body["message"].startswith("3 validation errors detected: ")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (f"{ENDPOINTS}?MaxResults=ten", "MaxResults must be a whole number."),
        (f"{ENDPOINTS}?MaxResults=", "MaxResults must be a whole number."),
        (f"{ENDPOINTS}?MaxResults=1&MaxResults=2", "MaxResults is given more than once."),
        (f"{ENDPOINTS}?CreationTimeAfter=1700000000", "CreationTimeAfter must be a time in ISO 8601"),
        (f"{ENDPOINTS}?CreationTimeAfter=2026-01-31T12%3A00%3A00", "with its offset"),
        (f"{ENDPOINTS}?CreationTimeAfter=2026-13-01T12%3A00%3A00Z", "must be a time"),
        (f"{METRICS}?IncludeLinkedAccounts=yes", "IncludeLinkedAccounts must be true or false."),
    ],
)
def test_a_query_that_is_not_of_its_members_types_is_refused_by_name(ask: Ask, path: str, sentence: str) -> None:
    found = ask("GET", path)
    assert (found.status, found.code) == (400, "SerializationException")
    assert sentence in found.body["message"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"ModelName": "a", "ModelName": "b"}', "given twice"),
        (b'{"ModelName": NaN}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"ModelName": "\xff"}', "not valid UTF-8"),
        (b'{"ModelName": 7}', "ModelName must be a string."),
        (b'{"ModelName": null}', "ModelName must not be null"),
        (b'{"ModelName": "m", "PrimaryContainer": {"Environment": {"A": null}}}', "PrimaryContainer.Environment.A"),
        (b'{"ModelName": "m", "Containers": {}}', "Containers must be a list."),
    ],
    ids=["cut", "list", "twice", "nan", "deep", "bytes", "number", "null", "inner-null", "object"],
)
def test_a_body_that_cannot_be_read_is_refused(plane: Plane, ask: Ask, body: bytes, sentence: str) -> None:
    found = ask("POST", MODELS, body)
    assert (found.status, found.code) == (400, "SerializationException")
    assert sentence in found.body["message"]


def test_members_that_no_model_knows_are_ignored_as_at_the_aws_door(plane: Plane, ask: Ask) -> None:
    assert ask("POST", MODELS, {**MODEL, "Colour": "blue"}).status == 201
    assert ask("GET", MODELS + query(Colour="blue")).status == 200


def test_an_empty_body_lacks_what_is_required(ask: Ask) -> None:
    found = ask("POST", MODELS)
    assert (found.status, found.code) == (400, "ValidationException")
    assert "Value null at 'modelName'" in found.body["message"]


def test_a_body_may_repeat_what_the_path_says_and_not_contradict_it(plane: Plane, ask: Ask) -> None:
    plane.create()
    plane.settle()
    plane.configure("next")
    same = {"EndpointName": "e", "EndpointConfigName": "next"}
    found = ask("PUT", f"{ENDPOINTS}/e", {**same, "EndpointName": "f"})
    assert (found.code, plane.describe()["EndpointConfigName"]) == ("SerializationException", "e")
    assert ask("PUT", f"{ENDPOINTS}/e", same).status == 200


def test_a_path_s_name_is_checked_as_any_member(ask: Ask) -> None:
    found = ask("GET", f"{ENDPOINTS}/{quote('no name!')}")
    assert (found.status, found.code) == (400, "ValidationException")
    assert "'endpointName'" in found.body["message"]


def test_tags_go_by_arn(plane: Plane, ask: Ask) -> None:
    ask("POST", MODELS, MODEL)
    tags = [{"Key": "team", "Value": "search"}, {"Key": "stage", "Value": "test"}]
    assert ask("POST", TAGS, {"ResourceArn": arn("model", "m"), "Tags": tags}).body == {"Tags": tags}
    gone = ask("DELETE", TAGS + query(ResourceArn=arn("model", "m"), TagKeys=["team", "nothing"]))
    assert gone.status == 204
    assert ask("GET", TAGS + query(ResourceArn=arn("model", "m"))).body == {"Tags": tags[1:]}


def test_alarms_whose_names_hold_a_slash_live_and_die(plane: Plane, ask: Ask) -> None:
    assert ask("PUT", ALARMS, ALARM).status == 204
    [told] = ask("GET", ALARMS + query(AlarmNames=[ALARM["AlarmName"]])).body["MetricAlarms"]
    assert (told["AlarmName"], told["StateValue"], told["Threshold"]) == ("high/errors", "INSUFFICIENT_DATA", 1.5)
    state = {"AlarmName": "high/errors", "StateValue": "ALARM", "StateReason": "A rehearsal."}
    assert ask("PUT", f"{ALARMS}/state", state).status == 204
    assert ask("GET", ALARMS + query(StateValue="ALARM")).body["MetricAlarms"][0]["StateReason"] == "A rehearsal."
    missing = ask("DELETE", ALARMS + query(AlarmNames=["high/errors", "other"]))
    assert (missing.status, missing.code) == (404, "ResourceNotFound")
    assert ask("DELETE", ALARMS + query(AlarmNames=["high/errors"])).status == 204
    assert ask("GET", ALARMS).body["MetricAlarms"] == []


def test_metrics_are_put_found_and_read(plane: Plane, ask: Ask) -> None:
    dimensions = [{"Name": "Shop", "Value": "a=b"}]
    datum = {"MetricName": "Orders", "Dimensions": dimensions, "Value": 3, "Timestamp": iso(plane.clock.now())}
    assert ask("POST", f"{METRICS}/data", {"Namespace": "Shop", "MetricData": [datum]}).status == 204
    found = ask("GET", METRICS + query(Namespace="Shop", Dimensions=["Shop=a=b"])).body["Metrics"]
    assert found == [{"Namespace": "Shop", "MetricName": "Orders", "Dimensions": dimensions}]
    assert ask("GET", METRICS + query(Dimensions=["Shop"])).body["Metrics"] == found
    assert ask("GET", METRICS + query(Dimensions=["Shop=c"])).body["Metrics"] == []
    around = {
        "StartTime": iso(plane.clock.now() - timedelta(minutes=5)),
        "EndTime": iso(plane.clock.now() + timedelta(minutes=5)),
    }
    named = {"Namespace": "Shop", "MetricName": "Orders", "Dimensions": ["Shop=a=b"], "Period": 60}
    points = ask("GET", f"{METRICS}/statistics" + query(**around, **named, Statistics=["Sum", "Maximum"])).body
    assert [(each["Sum"], each["Maximum"]) for each in points["Datapoints"]] == [(3.0, 3.0)]
    metric = {"Namespace": "Shop", "MetricName": "Orders", "Dimensions": dimensions}
    wanted = [{"Id": "q", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"}}]
    series = ask("POST", f"{METRICS}/queries", {**around, "MetricDataQueries": wanted}).body["MetricDataResults"]
    assert series[0]["Values"] == [3.0]
    assert series[0]["Timestamps"][0].endswith("Z")


def test_an_endpoint_is_told_as_documented_in_every_state(plane: Plane) -> None:
    """Each answer is held against the document; here is what to hold against it."""
    ask = holding(token_of(Role.OPERATOR))
    seen: set[tuple[str, bool]] = set()

    def look() -> dict[str, Any]:
        told: dict[str, Any] = ask("GET", f"{ENDPOINTS}/e").body
        seen.add((told["EndpointStatus"], "PendingDeploymentSummary" in told))
        return told

    ask("POST", MODELS, MODEL)
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 50,
        "DestinationS3Uri": "s3://captured/e",
        "CaptureOptions": [{"CaptureMode": "Input"}],
    }
    shadow = {"VariantName": "s", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": SECOND}
    variant = {**VARIANT, "VariantInstanceProvisionTimeoutInSeconds": 300}
    config = {"ProductionVariants": [variant], "DataCaptureConfig": capture, "ShadowProductionVariants": [shadow]}
    for name in ("c", "next", "never"):
        assert ask("POST", CONFIGS, {**config, "EndpointConfigName": name}).status == 201
        ask("GET", f"{CONFIGS}/{name}")
    plane.world.set_capacity(FIRST, 0)
    plane.world.set_capacity(SECOND, 0)
    tags = [{"Key": "headrace:coming-home", "Value": "10m"}]
    ask("POST", ENDPOINTS, {"EndpointName": "e", "EndpointConfigName": "c", "Tags": tags})
    plane.settle(2)
    assert "StatusMessage" in look()["PendingDeploymentSummary"]["ProductionVariants"][0]["VariantStatus"][0]
    plane.world.set_capacity(FIRST, 9)
    plane.world.set_capacity(SECOND, 9)
    plane.until(lambda: look()["EndpointStatus"] == "InService")
    told = look()
    assert told["DataCaptureConfig"]["CaptureStatus"] == "Started"
    assert told["ShadowProductionVariants"][0]["VariantName"] == "s"
    canary = {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {
                "Type": "CANARY",
                "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
                "WaitIntervalInSeconds": 30,
            },
            "TerminationWaitInSeconds": 30,
        }
    }
    ask("PUT", f"{ENDPOINTS}/e", {"EndpointConfigName": "next", "DeploymentConfig": canary})
    plane.until(lambda: look()["EndpointStatus"] == "InService", step=15)
    assert look()["LastDeploymentConfig"] == canary
    for kind in (FIRST, SECOND):
        plane.world.set_capacity(kind, 0)
    ask("PUT", f"{ENDPOINTS}/e", {"EndpointConfigName": "never"})
    plane.until(lambda: look()["EndpointStatus"] == "InService", step=30)
    assert look()["FailureReason"]
    ask("DELETE", f"{ENDPOINTS}/e")
    look()
    assert {("Creating", True), ("InService", False), ("Updating", True), ("Deleting", False)} <= seen


def test_an_endpoint_that_failed_says_why(plane: Plane) -> None:
    ask = holding(token_of(Role.VIEWER))
    for kind in (FIRST, SECOND):
        plane.world.set_capacity(kind, 0)
    plane.create(VariantInstanceProvisionTimeoutInSeconds=300)
    plane.until(lambda: ask("GET", f"{ENDPOINTS}/e").body["EndpointStatus"] == "Failed", step=30)
    assert "FailureReason" in ask("GET", f"{ENDPOINTS}/e").body


def test_what_is_read_by_post_is_for_viewers_and_what_changes_is_not(plane: Plane) -> None:
    viewer = holding(token_of(Role.VIEWER))
    now = iso(plane.clock.now())
    wanted = {"StartTime": now, "EndTime": iso(plane.clock.now() + timedelta(minutes=1)), "MetricDataQueries": []}
    assert viewer("POST", f"{METRICS}/queries", wanted).status == 200
    assert (viewer("GET", MODELS).status, viewer("POST", MODELS, MODEL).status) == (200, 403)
    assert holding(token_of(Role.OPERATOR))("POST", MODELS, MODEL).status == 201


def test_a_page_tells_an_operator_what_can_be_done_there(plane: Plane) -> None:
    browser = browser_of(user_of(Role.OPERATOR))
    page = browser.get(MODELS, headers={"Accept": "text/html"})
    text = page.content.decode()
    assert (page.status_code, page.headers["Content-Type"].partition(";")[0]) == (200, "text/html")
    assert "<h1>Models</h1>" in text
    assert "Store what an instance runs." in text
    assert 'name="_content"' in text, "a form to create one"


def test_a_body_of_another_type_and_an_answer_of_another_are_refused(plane: Plane) -> None:
    client = Client(headers={"Authorization": f"Bearer {token_of(Role.OPERATOR)}"})
    found = client.post(MODELS, b"ModelName=m", content_type="application/x-www-form-urlencoded")
    assert (found.status_code, found.headers["x-amzn-ErrorType"]) == (415, "UnknownOperationException")
    found = client.get(MODELS, headers={"Accept": "application/xml"})
    assert (found.status_code, found.headers["Content-Type"]) == (406, "application/json")
    assert client.head(MODELS).status_code == 200


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999-14:00"])
def test_the_first_and_the_last_times_that_can_be_written_do_no_harm(plane: Plane, ask: Ask, text: str) -> None:
    ask("POST", MODELS, MODEL)
    for member in ("CreationTimeAfter", "CreationTimeBefore"):
        assert ask("GET", MODELS + query(**{member: text})).status in (200, 400)
    named = {"Namespace": "Shop", "MetricName": "Orders", "Period": 60, "Statistics": ["Sum"]}
    now = iso(plane.clock.now())
    for stretch in (
        {"StartTime": text, "EndTime": now},
        {"StartTime": now, "EndTime": text},
        {"StartTime": text, "EndTime": text},
    ):
        assert ask("GET", f"{METRICS}/statistics" + query(**named, **stretch)).status == 400
    datum = {"MetricName": "Orders", "Value": 3, "Timestamp": text}
    assert ask("POST", f"{METRICS}/data", {"Namespace": "Shop", "MetricData": [datum]}).status == 400


def test_another_account_s_resources_are_not_there(plane: Plane, ask: Ask) -> None:
    plane.create()
    plane.settle()
    for path in (f"{ENDPOINTS}/e", f"{CONFIGS}/e", f"{MODELS}/e"):
        for method in ("GET", "DELETE"):
            found = ask(method, path, account=OTHER_ACCOUNT)
            assert (found.status, found.code) == (400, "ValidationException")
            assert "Could not find" in found.body["message"]
    assert ask("GET", ENDPOINTS, account=OTHER_ACCOUNT).body == {"Endpoints": []}
    assert plane.status() == "InService"


def test_other_media_types_and_methods_are_refused_in_the_wire_s_form(ask: Ask) -> None:
    found = ask("PATCH", f"{ENDPOINTS}/e", {})
    assert (found.status, found.code) == (405, "UnknownOperationException")
    assert set(found.headers["Allow"].split(", ")) == {"GET", "PUT", "DELETE", "HEAD", "OPTIONS"}
    found = ask("GET", "/api/v1/endpoints/e/nothing")
    assert (found.status, json.loads(found.content)["__type"]) == (404, "UnknownOperationException")

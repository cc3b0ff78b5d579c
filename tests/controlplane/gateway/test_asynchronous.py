"""InvokeEndpointAsync through the running gateway: what is stored, what is answered, what is refused."""

import re
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from psycopg.rows import dict_row

from tests.controlplane.gateway.site import Answer, Site, wait_for
from tests.engines_plugin import ACCOUNT

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
PATH = "/endpoints/later/async-invocations"
PREFIX = "x-amzn-sagemaker-"


@pytest.fixture(autouse=True)
def later(site: Site) -> uuid.UUID:
    """The asynchronous endpoint `later`, which has no instance."""
    return site.publish("later", failure_path="s3://bucket/failed/")


def accept(site: Site, body: bytes = b"x", **members: Any) -> dict[str, Any]:
    """Call the endpoint `later`."""
    answer: dict[str, Any] = site.client().invoke_endpoint_async(**{"EndpointName": "later", "Body": body, **members})
    return answer


def refused(site: Site, body: bytes = b"x", **members: Any) -> str:
    """The message of a call that is refused as invalid, and with which nothing is stored."""
    before = count(site)
    with pytest.raises(ClientError) as caught:
        accept(site, body, **members)
    error = caught.value.response
    assert (error["ResponseMetadata"]["HTTPStatusCode"], error["Error"]["Code"]) == (400, "ValidationError")
    assert count(site) == before
    return str(error["Error"]["Message"])


def count(site: Site) -> int:
    with site.database() as connection:
        found = connection.execute("SELECT count(*) FROM invocations_asyncinvocation").fetchone()
    return int(found[0]) if found else 0


def stored(site: Site, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The row and the payload behind an answer."""
    with site.database() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        query = (
            "SELECT invocation.*, payload.body FROM invocations_asyncinvocation invocation"
            " JOIN invocations_asyncpayload payload ON payload.invocation_id = invocation.id WHERE output_location = %s"
        )
        row = cursor.execute(query, [answer["OutputLocation"]]).fetchone()
    assert row is not None
    return row


def post(site: Site, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
    return site.post(PATH, body, headers)


# What is accepted.


def test_the_answer_names_both_locations_and_the_row_is_there_before_it(site: Site, later: uuid.UUID) -> None:
    answer = accept(site, b"payload")
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert re.fullmatch(f"s3://bucket/out/{UUID}\\.out", answer["OutputLocation"])
    assert re.fullmatch(f"s3://bucket/failed/{UUID}-error\\.out", answer["FailureLocation"])
    row = stored(site, answer)
    assert bytes(row["body"]) == b"payload"
    assert (row["account_id"], row["endpoint_id"], row["endpoint_name"]) == (ACCOUNT, later, "later")
    assert (row["state"], row["attempts"], row["variant_name"], row["lease_token"]) == ("queued", 0, "", None)
    assert row["inference_id"] == answer["InferenceId"]
    assert row["failure_location"] == answer["FailureLocation"]
    assert row["due_at"] == row["accepted_at"]
    assert row["expires_at"] - row["accepted_at"] == timedelta(hours=6)
    assert row["timeout_seconds"] == 900


def test_members_are_stored_as_they_were_sent(site: Site) -> None:
    answer = accept(
        site,
        ContentType="text/csv; header=present",
        Accept="application/x-npy",
        CustomAttributes="a=1;b=2",
        InferenceId="mine",
        RequestTTLSeconds=60,
        InvocationTimeoutSeconds=5,
    )
    assert answer["InferenceId"] == "mine"
    row = stored(site, answer)
    assert (row["content_type"], row["accept"], row["custom_attributes"]) == (
        "text/csv; header=present",
        "application/x-npy",
        "a=1;b=2",
    )
    assert (row["expires_at"] - row["accepted_at"], row["timeout_seconds"]) == (timedelta(seconds=60), 5)


def test_the_content_type_of_the_request_itself_is_not_the_payloads(site: Site) -> None:
    answer = post(site, b"x", {"Content-Type": "text/plain"})
    assert stored(site, {"OutputLocation": answer.headers[PREFIX + "outputlocation"]})["content_type"] == ""


@pytest.mark.parametrize("size", [1, 127_999, 128_000])
def test_a_body_up_to_the_limit_is_stored_byte_by_byte(site: Site, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    assert bytes(stored(site, accept(site, body))["body"]) == body


def test_a_reused_inference_id_gets_locations_of_its_own(site: Site) -> None:
    first, second = accept(site, InferenceId="dup/../id"), accept(site, InferenceId="dup/../id")
    assert first["InferenceId"] == second["InferenceId"] == "dup/../id"
    assert first["OutputLocation"] != second["OutputLocation"]
    assert ".." not in first["OutputLocation"]


def test_extension_and_filename_shape_the_output_location_only(site: Site) -> None:
    answer = accept(site, S3OutputPathExtension="a/b/", Filename="result.json")
    assert answer["OutputLocation"] == "s3://bucket/out/a/b/result.json"
    assert re.fullmatch(f"s3://bucket/failed/{UUID}-error\\.out", answer["FailureLocation"])


def test_without_a_failure_path_there_is_no_failure_header(site: Site) -> None:
    site.publish("no-failure-path", failure_path="")
    answer = accept(site, EndpointName="no-failure-path")
    assert "FailureLocation" not in answer
    assert stored(site, answer)["failure_location"] == ""


def test_the_answer_in_raw(site: Site) -> None:
    answer = post(site, b"x")
    assert (answer.status, answer.headers["content-type"]) == (202, "application/json")
    assert set(answer.json) == {"InferenceId"}
    assert answer.headers["x-amzn-requestid"]
    assert answer.headers["content-length"] == str(len(answer.body))


# Where the payload is instead.


def row_of(site: Site, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The row behind an answer, whose payload is elsewhere."""
    with site.database() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        query = (
            "SELECT invocation.*, payload.body FROM invocations_asyncinvocation invocation"
            " LEFT JOIN invocations_asyncpayload payload ON payload.invocation_id = invocation.id"
            " WHERE output_location = %s"
        )
        row = cursor.execute(query, [answer["OutputLocation"]]).fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("location", ["s3://bucket/in", "s3://bucket/a/b%20c?d#e", f"s3://bucket/{'k' * 1011}"])
def test_an_object_may_stand_for_the_body(site: Site, location: str) -> None:
    row = row_of(site, accept(site, b"", InputLocation=location, ContentType="text/csv"))
    assert (row["input_location"], row["content_type"], row["body"]) == (location, "text/csv", None)


def test_a_payload_on_a_host_is_refused_until_the_operator_allows_the_host(
    site: Site, new_site: Callable[..., Site]
) -> None:
    assert "HEADRACE_INPUT_HOSTS" in refused(site, b"", InputLocation="https://data.example.com/in")
    allowing = new_site(HEADRACE_INPUT_HOSTS="data.example.com, other.example.com")
    wait_for(lambda: post(allowing, b"x").status == 202)
    answer = accept(allowing, b"", InputLocation="https://data.example.com/in?version=1")
    assert row_of(site, answer)["input_location"] == "https://data.example.com/in?version=1"
    for location in ("https://user@data.example.com/in", "https://data.example.com:8443/in", "https://example.com/in"):
        assert "InputLocation" in refused(allowing, b"", InputLocation=location)


@pytest.mark.parametrize(
    "location",
    ["", "http://bucket/in", "s3://bucket", "s3://bucket/", "s3:///key", "file:///etc/passwd", "s3://b/" + "k" * 1018],
)
def test_what_is_no_location_is_refused_at_once(site: Site, location: str) -> None:
    headers = {"X-Amzn-SageMaker-InputLocation": location}
    before = count(site)
    answer = post(site, b"", headers)
    assert (answer.status, answer.headers["x-amzn-errortype"].partition(":")[0]) == (400, "ValidationError")
    assert "nputLocation" in answer.json["Message"]
    assert count(site) == before


def test_what_the_endpoint_says_of_outcomes_is_kept_with_the_request(site: Site) -> None:
    said = '{"kms_key_id":"key-1","success_topic":"arn:aws:sns:us-east-1:123456789012:done"}'
    site.publish("told", failure_path="", delivery=said)
    row = row_of(site, accept(site, EndpointName="told"))
    assert row["delivery"] == {"kms_key_id": "key-1", "success_topic": "arn:aws:sns:us-east-1:123456789012:done"}
    assert row_of(site, accept(site))["delivery"] == {}
    assert (row["state"], row["timeline"], row["failure_kind"], row["redrives"]) == ("queued", [], "", 0)


# What is refused.


@pytest.mark.parametrize("body", [b"a" * 128_001, "\u00e9".encode() * 64_001])
def test_a_body_over_the_limit_is_refused_with_the_limit(site: Site, body: bytes) -> None:
    assert "128000" in refused(site, body)


def test_exactly_one_of_body_and_location_is_wanted(site: Site) -> None:
    assert "not both" in refused(site, b"x", InputLocation="s3://bucket/in")
    assert "neither" in refused(site, b"")


def test_a_place_whose_key_no_store_would_take_is_refused_before_the_model_is_asked(site: Site) -> None:
    site.publish("deep", failure_path="", output_path=f"s3://bucket/{'p' * 600}")
    fits = accept(site, EndpointName="deep", S3OutputPathExtension="e" * 420, Filename="ff")
    assert len(fits["OutputLocation"]) == len("s3://bucket/") + 1024
    message = refused(site, EndpointName="deep", S3OutputPathExtension="e" * 420, Filename="fff")
    assert "has a key of 1025 bytes; a key may hold 1024" in message


def test_a_synchronous_endpoint_refuses_an_asynchronous_call(site: Site) -> None:
    site.publish("only-sync")
    assert refused(site, EndpointName="only-sync").endswith("does not support this inference type.")
    assert refused(site, EndpointName="nope") == f"Endpoint nope of account {ACCOUNT} not found."


@pytest.mark.parametrize("phase", ["Deleting", "Failed"])
def test_an_endpoint_that_goes_is_not_found_although_its_route_is_not_withdrawn_yet(site: Site, phase: str) -> None:
    name = f"going-{phase}"
    site.publish(name, failure_path="")
    accept(site, EndpointName=name)
    with site.database() as connection:
        connection.execute("UPDATE endpoints_endpoint SET phase = %s WHERE name = %s", [phase, name])
    assert refused(site, EndpointName=name) == f"Endpoint {name} of account {ACCOUNT} not found."


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("RequestTTLSeconds", 21_601),
        ("InvocationTimeoutSeconds", 3601),
        ("InferenceId", "x" * 65),
        ("Filename", "x" * 33),
        ("Filename", "../x"),
        ("S3OutputPathExtension", "s3://other/bucket"),
        ("S3OutputPathExtension", "a/../../b"),
        ("CustomAttributes", "\u6f22"),
    ],
)
def test_a_member_out_of_its_bounds_is_refused_by_name(site: Site, member: str, value: Any) -> None:
    assert member.lower() in refused(site, **{member: value}).lower()


def test_several_violations_are_told_at_once(site: Site) -> None:
    message = refused(site, RequestTTLSeconds=99_999, InvocationTimeoutSeconds=4000)
    assert message.startswith("2 validation errors detected: ")


def test_the_body_of_a_stranger_is_refused_and_not_stored(site: Site) -> None:
    before = count(site)
    headers = site.signed(PATH, b"x")
    assert site.request("POST", PATH, b"y", headers).status == 403
    assert site.request("POST", PATH, b"y").status == 403
    assert count(site) == before


def test_an_endpoint_deleted_behind_the_gateways_back_is_not_accepted_for(site: Site) -> None:
    site.publish("goes", failure_path="")
    assert accept(site, EndpointName="goes")["InferenceId"]
    site.delete("goes")
    assert refused(site, EndpointName="goes") == f"Endpoint goes of account {ACCOUNT} not found."


def test_an_endpoint_created_again_under_its_name_is_found_at_once(site: Site) -> None:
    site.publish("again", failure_path="")
    accept(site, EndpointName="again")
    site.delete("again")
    second = site.publish("again", failure_path="")
    assert stored(site, accept(site, EndpointName="again"))["endpoint_id"] == second


def test_with_the_database_away_nothing_is_accepted_and_the_answer_comes_in_bounded_time(
    new_site: Callable[..., Site],
) -> None:
    site = new_site()
    site.publish("later-there", failure_path="")
    accept(site, EndpointName="later-there")
    with site.database() as connection:
        before = count(site)
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE invocations_asyncpayload IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ClientError) as caught:
            accept(site, EndpointName="later-there")
        connection.execute("ROLLBACK")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"
    assert count(site) <= before + 1

"""What must be among the signed headers, and what clients and the things between may add without signing it."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config

from controlplane.auth.sigv4 import SignedRequest, body_hash, scope_of, verify
from controlplane.core import clock
from controlplane.core.errors import InvalidSignature
from tests import aws
from tests.controlplane.auth.test_sigv4 import KEY, check, signed


def with_header(request: SignedRequest, name: str, value: str) -> SignedRequest:
    """The request with one header more, or another value of it."""
    kept = tuple(pair for pair in request.headers if pair[0] != name)
    return SignedRequest(request.method, request.path, request.query, (*kept, (name, value)), request.body_sha256)


def sent_by_boto3() -> SignedRequest:
    """ListModels as a whole boto3 client sends it."""
    sent: list[AWSPreparedRequest] = []

    def keep(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        sent.append(request)
        answer = AWSResponse(request.url, 200, {}, None)
        answer._content = b"{}"
        return answer

    client = aws.client(
        "sagemaker",
        region_name="us-east-1",
        aws_access_key_id=KEY.access_key_id,
        aws_secret_access_key=KEY.secret,
        endpoint_url="http://127.0.0.1:8000",
        config=Config(retries={"total_max_attempts": 1}),
    )
    client.meta.events.register("before-send", keep)
    client.list_models()
    (request,) = sent
    texts = {name: value if isinstance(value, str) else value.decode("latin-1") for name, value in request.headers.items()}
    headers = (("host", "127.0.0.1:8000"), *((name.lower(), value) for name, value in texts.items()))
    body = request.body if isinstance(request.body, bytes) else b""
    return SignedRequest(request.method, urlsplit(request.url).path, "", headers, body_hash(body))


def test_boto3_inside_a_function_sends_an_unsigned_trace_id_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "caller")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")
    request = sent_by_boto3()
    assert request.header("x-amzn-trace-id") is not None
    assert "x-amzn-trace-id" not in str(request.header("authorization"))
    assert check(request) == KEY


@pytest.mark.parametrize("name", ["x-amzn-trace-id", "x-amz-cf-id", "x-forwarded-for", "user-agent", "amz-sdk-request"])
def test_what_is_added_on_the_way_need_not_be_signed(name: str) -> None:
    assert check(with_header(signed(), name, "v")) == KEY


@pytest.mark.parametrize(
    "name", ["x-amz-target", "x-amz-content-sha256", "x-amzn-sagemaker-target-variant", "x-amzn-sagemaker-filename"]
)
def test_what_carries_meaning_must_be_signed(name: str) -> None:
    unsigned = signed({"Content-Type": "application/x-amz-json-1.1"})
    with pytest.raises(InvalidSignature, match=f"must cover the header\\(s\\) {name}"):
        check(with_header(unsigned, name, "v"))


def test_the_parameters_of_the_header_may_come_in_any_order() -> None:
    request = signed()
    algorithm, _, parameters = str(request.header("authorization")).partition(" ")
    reversed_parameters = ",".join(reversed(parameters.split(", ")))
    assert check(with_header(request, "authorization", f"{algorithm} {reversed_parameters}")) == KEY


@pytest.mark.parametrize("query", ["a=%FF&a=%C3%A9", "b&a=", "a=1%2B1&a=1", "%61=x"])
def test_queries_are_signed_byte_by_byte(query: str) -> None:
    request = signed(url=f"http://127.0.0.1:8000/?{query}")
    if query != "%61=x":
        assert verify(request, lambda _: KEY, region="us-east-1", service="sagemaker", now=clock.now()) == KEY
        return
    # botocore signs the query as it is written; the rule encodes it anew, which is the same for all it writes itself.
    with pytest.raises(InvalidSignature):
        check(request)


def test_the_scope_is_that_of_the_header_that_is_verified() -> None:
    ours = ("authorization", str(signed().header("authorization")))
    theirs = ("authorization", str(signed(service="s3").header("authorization")))
    scope = scope_of([ours, theirs], "X-Amz-Credential=AKID%2F20261130%2Fus-east-1%2Fs3%2Faws4_request")
    assert scope is not None
    assert scope.service == "sagemaker"
    assert scope_of([("authorization", "Basic eDp5")], "") is None

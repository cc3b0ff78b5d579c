"""Signature Version 4, with botocore as the client that signs."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth.sigv4 import Key, SignedRequest, body_hash, scope_of, verify
from controlplane.core import clock
from controlplane.core.errors import (
    AuthenticationError,
    IncompleteSignature,
    InvalidSignature,
    MissingAuthenticationToken,
    UnrecognizedClient,
)

KEY = Key("AKIDEXAMPLE", "secret/with+signs", "123456789012")
TARGET = {"X-Amz-Target": "SageMaker.DescribeEndpoint", "Content-Type": "application/x-amz-json-1.1"}


def signed(
    headers: Mapping[str, str] = TARGET,
    body: bytes = b"{}",
    url: str = "http://127.0.0.1:8000/",
    *,
    region: str = "us-east-1",
    service: str = "sagemaker",
    token: str | None = None,
    secret: str = KEY.secret,
) -> SignedRequest:
    """A request as botocore signs it and a server sees it."""
    request = AWSRequest("POST", url, data=body, headers={"Host": "127.0.0.1:8000", **headers})
    SigV4Auth(Credentials(KEY.access_key_id, secret, token), service, region).add_auth(request)
    path, _, query = url.removeprefix("http://127.0.0.1:8000").partition("?")
    seen = tuple((name.lower(), value.encode().decode("latin-1")) for name, value in request.headers.items())
    return SignedRequest("POST", path, query, seen, body_hash(body))


def check(request: SignedRequest, now: datetime | None = None) -> Key:
    """Verify as the API does."""
    keys = {KEY.access_key_id: KEY}
    return verify(request, keys.get, region="us-east-1", service="sagemaker", now=now or clock.now())


def signed_at(request: SignedRequest) -> datetime:
    """The time that a request says, to the second."""
    return datetime.strptime(str(request.header("x-amz-date")), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def changed(request: SignedRequest, **changes: object) -> SignedRequest:
    """The request with some of its parts changed after it was signed."""
    return replace(request, **changes)  # type: ignore[arg-type]


def with_header(request: SignedRequest, name: str, value: str) -> SignedRequest:
    """The request with one header changed or added after it was signed."""
    kept = tuple(pair for pair in request.headers if pair[0] != name)
    return changed(request, headers=(*kept, (name, value)))


def test_a_request_signed_by_botocore_passes() -> None:
    assert check(signed()) == KEY


@pytest.mark.parametrize("value", ["  a   b  ", "x ", "a\tb", "", "k" * 1024, "caf\u00e9", "\u6f22\u5b57", "\U0001f600"])
def test_header_values_are_folded_as_the_client_folds_them(value: str) -> None:
    assert check(signed({**TARGET, "X-Amzn-SageMaker-Custom-Attributes": value})) == KEY


@given(
    st.lists(st.tuples(st.text("ab-_.~ /+&=%\u00e4", max_size=5), st.text("cd-_.~ /+&=%\u6f22", max_size=5)), max_size=4),
    st.binary(max_size=50),
)
def test_any_query_and_body_verify(pairs: list[tuple[str, str]], body: bytes) -> None:
    query = urlencode([(name or "x", value) for name, value in pairs], quote_via=quote, safe="")
    assert check(signed(body=body, url=f"http://127.0.0.1:8000/?{query}")) == KEY


@pytest.mark.parametrize("path", ["/", "/endpoints/a-b/invocations", "/a%20b/c", "/a%2Fb", "/~x/_.-"])
def test_paths_are_encoded_twice(path: str) -> None:
    assert check(signed(url=f"http://127.0.0.1:8000{path}")) == KEY


def test_an_altered_body_is_refused() -> None:
    with pytest.raises(InvalidSignature, match="does not match the signature you provided"):
        check(changed(signed(), body_sha256=body_hash(b"{ }")))


def test_a_content_hash_that_does_not_belong_to_the_body_is_refused() -> None:
    altered = changed(signed(), body_sha256=body_hash(b"evil"))
    with pytest.raises(InvalidSignature, match="must cover"):
        check(with_header(altered, "x-amz-content-sha256", body_hash(b"evil")))


def test_another_operation_than_the_signed_one_is_refused() -> None:
    with pytest.raises(InvalidSignature, match="does not match"):
        check(with_header(signed(), "x-amz-target", "SageMaker.DeleteEndpoint"))


@pytest.mark.parametrize("name", ["x-amz-target", "x-amzn-sagemaker-custom-attributes", "x-amz-anything"])
def test_a_header_that_matters_must_be_signed(name: str) -> None:
    unsigned = signed({"Content-Type": "application/x-amz-json-1.1"})
    with pytest.raises(InvalidSignature, match=f"must cover the header\\(s\\) {name}"):
        check(with_header(unsigned, name, "v"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-299, None), (299, None), (301, "Signature expired: "), (-301, "Signature not yet current: ")],
)
def test_the_clock_may_be_off_by_five_minutes(seconds: int, text: str | None) -> None:
    request = signed()
    now = signed_at(request) + timedelta(seconds=seconds)
    if text is None:
        assert check(request, now) == KEY
        return
    with pytest.raises(InvalidSignature, match=f"^{text}.*5 min"):
        check(request, now)


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        (lambda: signed(secret="wrong"), InvalidSignature, "does not match"),
        (lambda: signed(region="eu-west-1"), InvalidSignature, "valid region"),
        (lambda: signed(service="sns"), InvalidSignature, "correct service: 'sagemaker'"),
        (lambda: signed(token="temporary"), UnrecognizedClient, "security token included in the request is invalid"),
        (lambda: with_header(signed(), "authorization", "Bearer x"), IncompleteSignature, "must start with"),
        (lambda: with_header(signed(), "authorization", "AWS4-HMAC-SHA256 x"), IncompleteSignature, "requires"),
        (lambda: with_header(signed(), "x-amz-date", "yesterday"), IncompleteSignature, "X-Amz-Date"),
        (lambda: SignedRequest("POST", "/", "", (), body_hash(b"")), MissingAuthenticationToken, "^Missing Authentication"),
    ],
)
def test_what_is_wrong_is_said(request_: object, error: type[AuthenticationError], text: str) -> None:
    with pytest.raises(error, match=text):
        check(request_())  # type: ignore[operator]


def test_an_unknown_key_is_unrecognized() -> None:
    with pytest.raises(UnrecognizedClient, match=r"^The security token included in the request is invalid\.$"):
        verify(signed(), lambda _: None, region="us-east-1", service="sagemaker", now=clock.now())


def test_the_scope_is_read_from_headers_and_from_presigned_queries() -> None:
    scope = scope_of(signed(service="s3").headers, "")
    assert scope is not None
    assert (scope.access_key_id, scope.region, scope.service) == (KEY.access_key_id, "us-east-1", "s3")
    presigned = scope_of((), "X-Amz-Credential=AKID%2F20261130%2Fus-east-1%2Fs3%2Faws4_request")
    assert presigned is not None
    assert presigned.service == "s3"
    assert scope_of((), "") is None


@given(st.text(max_size=80))
def test_no_authorization_header_is_ever_a_crash(text: str) -> None:
    with pytest.raises(AuthenticationError):
        check(with_header(signed(), "authorization", "AWS4-HMAC-SHA256 " + text))

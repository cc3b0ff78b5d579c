"""Signatures at their edges: the words of each refusal, dates, header values and times, botocore signing."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth.sigv4 import Key, SignedRequest, body_hash, verify
from controlplane.core import clock
from controlplane.core.errors import (
    AuthenticationError,
    IncompleteSignature,
    InvalidSignature,
    MissingAuthenticationToken,
    UnrecognizedClient,
)
from tests.controlplane.auth.test_sigv4 import KEY, TARGET, changed, check, signed, with_header

SIGNED_AT = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method. Consult the service documentation for details."
)
NO_TIME = "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."


def refusal(request: SignedRequest, now: datetime | None = None) -> tuple[type[AuthenticationError], str]:
    """How a request is refused."""
    with pytest.raises(AuthenticationError) as caught:
        check(request, now)
    assert caught.value.status == 400
    assert caught.value.runtime_status == 403
    return type(caught.value), caught.value.message


def signed_by_hand(headers: Mapping[str, str], names: Iterable[str], at: datetime = SIGNED_AT) -> SignedRequest:
    """A request signed as the specification spells it out, without botocore; values stand in their canonical form."""
    names, stamp = list(names), at.strftime("%Y%m%dT%H%M%SZ")
    canonical = "".join(f"{name}:{headers.get(name, '')}\n" for name in names)
    request = f"POST\n/\n\n{canonical}\n{';'.join(names)}\n{body_hash(b'{}')}"
    scope = f"{stamp[:8]}/us-east-1/sagemaker/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    secret = f"AWS4{KEY.secret}".encode()
    for part in scope.split("/"):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={KEY.access_key_id}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return SignedRequest("POST", "/", "", (*headers.items(), ("authorization", authorization)), body_hash(b"{}"))


def without(request: SignedRequest, name: str) -> SignedRequest:
    """The request with a header taken away after it was signed."""
    return changed(request, headers=tuple(pair for pair in request.headers if pair[0] != name))


@pytest.mark.parametrize(
    ("altered", "error", "message"),
    [
        (lambda: signed(secret="wrong"), InvalidSignature, MISMATCH),
        (lambda: changed(signed(), body_sha256=body_hash(b"{ }")), InvalidSignature, MISMATCH),
        (lambda: changed(signed(), method="PUT"), InvalidSignature, MISMATCH),
        (lambda: changed(signed(), path="/x"), InvalidSignature, MISMATCH),
        (lambda: changed(signed(), query="a=b"), InvalidSignature, MISMATCH),
        (lambda: with_header(signed(), "host", "elsewhere"), InvalidSignature, MISMATCH),
        (lambda: with_header(signed(), "x-amz-target", "SageMaker.DeleteEndpoint"), InvalidSignature, MISMATCH),
        (lambda: without(signed(), "x-amz-target"), InvalidSignature, MISMATCH),
        (
            lambda: signed(region="eu-west-1"),
            InvalidSignature,
            "Credential should be scoped to a valid region, not 'eu-west-1'.",
        ),
        (
            lambda: signed(service="application-autoscaling"),
            InvalidSignature,
            "Credential should be scoped to correct service: 'sagemaker'.",
        ),
        (lambda: signed(token="t"), UnrecognizedClient, "The security token included in the request is invalid."),
        (lambda: without(signed(), "authorization"), MissingAuthenticationToken, "Missing Authentication Token"),
        (lambda: without(signed(), "x-amz-date"), IncompleteSignature, NO_TIME),
        (
            lambda: with_header(signed(), "x-amz-date", "2026-11-01"),
            IncompleteSignature,
            "X-Amz-Date must have the form yyyymmddThhmmssZ, or Date that of HTTP.",
        ),
        (
            lambda: with_header(signed(), "x-amz-date", "20200101T000000Z"),
            InvalidSignature,
            "Date in Credential scope does not match the date of X-Amz-Date.",
        ),
        (
            lambda: with_header(signed(), "authorization", "AWS3 x"),
            IncompleteSignature,
            "Authorization header must start with 'AWS4-HMAC-SHA256'.",
        ),
        (
            lambda: with_header(signed(), "authorization", "AWS4-HMAC-SHA256 Credential=a/b, Signature=c"),
            IncompleteSignature,
            "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature'.",
        ),
        (
            lambda: with_header(
                signed(), "authorization", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=c"
            ),
            IncompleteSignature,
            "Credential must have the form KEY/yyyymmdd/region/service/aws4_request.",
        ),
    ],
)
def test_each_refusal_has_its_code_and_its_words(altered: object, error: type[AuthenticationError], message: str) -> None:
    assert refusal(altered()) == (error, message)  # type: ignore[operator]


def test_an_unknown_key_is_told_like_a_bad_token() -> None:
    def find(access_key_id: str) -> Key | None:
        assert access_key_id == KEY.access_key_id
        return None

    with pytest.raises(UnrecognizedClient) as caught:
        verify(signed(), find, region="us-east-1", service="sagemaker", now=clock.now())
    assert caught.value.message == "The security token included in the request is invalid."


def test_no_key_is_looked_up_for_another_region_or_service() -> None:
    def find(access_key_id: str) -> Key | None:
        raise AssertionError(access_key_id)

    for request in (signed(region="eu-west-1"), signed(service="s3")):
        with pytest.raises(InvalidSignature):
            verify(request, find, region="us-east-1", service="sagemaker", now=clock.now())


def base_headers() -> dict[str, str]:
    """What any client signs."""
    return {"host": "h", "x-amz-date": SIGNED_AT.strftime("%Y%m%dT%H%M%SZ")}


def test_a_request_signed_by_the_specification_passes() -> None:
    assert check(signed_by_hand(base_headers(), ["host", "x-amz-date"]), SIGNED_AT) == KEY


@pytest.mark.parametrize("offset", [-300, -299, -1, 0, 1, 299, 300])
def test_within_five_minutes_either_way_the_clock_may_differ(offset: int) -> None:
    request = signed_by_hand(base_headers(), ["host", "x-amz-date"])
    assert check(request, SIGNED_AT + timedelta(seconds=offset)) == KEY


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (
            301,
            "Signature expired: 20261101T120000Z is now earlier than 20261101T120001Z (20261101T120501Z - 5 min.)",
        ),
        (
            -301,
            "Signature not yet current: 20261101T120000Z is still later than 20261101T115959Z (20261101T115459Z + 5 min.)",
        ),
    ],
)
def test_beyond_five_minutes_the_limit_is_told(offset: int, message: str) -> None:
    request = signed_by_hand(base_headers(), ["host", "x-amz-date"])
    assert refusal(request, SIGNED_AT + timedelta(seconds=offset)) == (InvalidSignature, message)


def test_a_bad_signature_is_told_before_a_wrong_clock() -> None:
    assert refusal(signed(secret="wrong"), clock.now() + timedelta(days=2)) == (InvalidSignature, MISMATCH)


def test_just_after_midnight_a_signature_of_yesterday_holds() -> None:
    at = datetime(2026, 10, 31, 23, 59, 0, tzinfo=UTC)
    headers = {"host": "h", "x-amz-date": "20261031T235900Z"}
    assert check(signed_by_hand(headers, ["host", "x-amz-date"], at), at + timedelta(minutes=2)) == KEY


def test_a_client_that_dates_with_http_is_understood() -> None:
    request = signed({**TARGET, "Date": "to be replaced by botocore"})
    assert request.header("x-amz-date") is None
    assert check(request) == KEY


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000"])
def test_an_http_date_must_be_signed_and_is_held_to_the_same_window(zone: str) -> None:
    headers = {"date": f"Sun, 01 Nov 2026 12:00:00 {zone}", "host": "h"}
    assert check(signed_by_hand(headers, ["date", "host"]), SIGNED_AT) == KEY
    assert refusal(signed_by_hand(headers, ["host"]), SIGNED_AT) == (
        InvalidSignature,
        "The signature must cover the header(s) date.",
    )
    error, message = refusal(signed_by_hand(headers, ["date", "host"]), SIGNED_AT + timedelta(seconds=301))
    assert (error, message[:19]) == (InvalidSignature, "Signature expired: ")


@given(st.text(st.characters(max_codepoint=255), max_size=60) | st.datetimes().map(format_datetime))
def test_no_date_header_is_ever_a_crash(text: str) -> None:
    headers = {"date": text, "host": "h"}
    with pytest.raises((IncompleteSignature, InvalidSignature)):
        check(signed_by_hand(headers, ["host"]), SIGNED_AT)


@pytest.mark.parametrize(
    "value",
    [
        "  a   b  ",
        "a\tb",
        "\t a \t b\t",
        "",
        "\u00e0",  # its second byte alone is a no-break space
        "\u00c5 \u2026",  # these hold the byte 85, a line break in latin-1
        "a\u00a0\u3000b",
        "\u6f22\u5b57 \U0001f600",
    ],
)
def test_header_values_are_folded_as_botocore_folds_them(value: str) -> None:
    assert check(signed({**TARGET, ATTRIBUTES: value})) == KEY


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_any_text_in_a_header_verifies(value: str) -> None:
    assert check(signed({**TARGET, ATTRIBUTES: value})) == KEY


@given(st.binary(max_size=20))
def test_bytes_in_a_header_that_are_not_text_are_refused_and_never_a_crash(value: bytes) -> None:
    assert refusal(with_header(signed({**TARGET, ATTRIBUTES: "\u00fe"}), ATTRIBUTES.lower(), value.decode("latin-1"))) == (
        InvalidSignature,
        MISMATCH,
    )


def test_a_change_that_folding_hides_changes_nothing_that_matters_and_any_other_is_refused() -> None:
    request = signed({**TARGET, ATTRIBUTES: "a b"})
    assert check(with_header(request, ATTRIBUTES.lower(), " a  b")) == KEY
    assert refusal(with_header(request, ATTRIBUTES.lower(), "ab"))[1] == MISMATCH


def test_values_of_a_header_that_was_signed_twice_count_in_their_order() -> None:
    headers = {"host": "h", "x-amz-date": f"{SIGNED_AT:%Y%m%dT%H%M%SZ}", "x-other": "one two,three"}
    request = signed_by_hand(headers, headers)
    kept = tuple(pair for pair in request.headers if pair[0] != "x-other")
    values = (("x-other", " one   two"), ("x-other", "three "))
    assert check(changed(request, headers=(*kept, *values)), SIGNED_AT) == KEY
    assert refusal(changed(request, headers=(*kept, *reversed(values))), SIGNED_AT)[0] is InvalidSignature


def test_a_second_value_of_a_signed_header_is_refused() -> None:
    request = signed()
    doubled = changed(request, headers=(*request.headers, ("x-amz-target", "SageMaker.DeleteEndpoint")))
    assert refusal(doubled) == (InvalidSignature, MISMATCH)


@pytest.mark.parametrize("name", ["x-amz-target", "x-amz-meta", "x-amzn-sagemaker-target-variant", "headrace-account"])
def test_a_header_that_matters_is_refused_when_unsigned(name: str) -> None:
    request = signed({"Content-Type": "application/x-amz-json-1.1"})
    expected = f"The signature must cover the header(s) {name}."
    assert refusal(with_header(request, name, "v")) == (InvalidSignature, expected)


@pytest.mark.parametrize("name", ["user-agent", "amz-sdk-invocation-id", "amz-sdk-request", "accept"])
def test_headers_that_clients_leave_unsigned_may_be(name: str) -> None:
    assert check(with_header(signed(), name, "v")) == KEY


def test_a_signature_must_cover_the_host() -> None:
    request = signed_by_hand({"x-amz-date": "20261101T120000Z"}, ["x-amz-date"])
    assert refusal(request, SIGNED_AT) == (InvalidSignature, "The signature must cover the header(s) host.")


def test_a_content_hash_must_be_signed_and_belong_to_the_body() -> None:
    names = ["host", "x-amz-content-sha256", "x-amz-date"]
    good = signed_by_hand({**base_headers(), "x-amz-content-sha256": body_hash(b"{}")}, names)
    assert check(good, SIGNED_AT) == KEY
    for declared in ("UNSIGNED-PAYLOAD", body_hash(b"evil"), ""):
        bad = signed_by_hand({**base_headers(), "x-amz-content-sha256": declared}, names)
        assert refusal(bad, SIGNED_AT)[1] == "The value of X-Amz-Content-SHA256 does not match the body."
    added = with_header(changed(signed(), body_sha256=body_hash(b"evil")), "x-amz-content-sha256", body_hash(b"evil"))
    assert refusal(added)[1] == "The signature must cover the header(s) x-amz-content-sha256."


@pytest.mark.parametrize("query", ["b=2&a=1", "a=2&a=1", "a=1&a=", "a", "a-b=1&a=2&aa=3", "a=~%20x", "A=1&a=2&B=3"])
def test_the_order_of_the_query_does_not_matter(query: str) -> None:
    request = AWSRequest("POST", f"http://h/?{query}", data=b"{}", headers={"Host": "h"})
    SigV4Auth(Credentials(KEY.access_key_id, KEY.secret), "sagemaker", "us-east-1").add_auth(request)
    headers = tuple((name.lower(), value) for name, value in request.headers.items())
    reordered = "&".join(reversed(query.split("&")))
    for sent in (query, reordered):
        assert check(SignedRequest("POST", "/", sent, headers, body_hash(b"{}"))) == KEY

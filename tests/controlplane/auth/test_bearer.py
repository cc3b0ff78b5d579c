"""Bearer tokens, made as the public generator makes them: by botocore's own query signer."""

import base64
from datetime import UTC, datetime, timedelta
from io import StringIO
from unittest.mock import patch

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from django.conf import settings
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth import bearer
from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from controlplane.core.errors import (
    AuthenticationError,
    ExpiredToken,
    IncompleteSignature,
    InvalidSignature,
    UnrecognizedClient,
)
from tests.engines_plugin import ACCOUNT

NOW = datetime(2026, 11, 3, 12, 0, 0, tzinfo=UTC)
KEY = Key("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "123456789012")


def generated(
    *,
    at: datetime = NOW,
    secret: str = KEY.secret,
    session_token: str | None = None,
    region: str = "us-east-1",
    service: str = "sagemaker",
    action: str = "CallWithBearerToken",
    expires: int = 43200,
) -> str:
    """A token as the generator in the `sagemaker` package makes it (contract, data plane 2.2)."""
    request = AWSRequest(
        "POST", "https://sagemaker.amazonaws.com/", headers={"host": bearer.HOST}, params={"Action": action}
    )
    credentials = Credentials(KEY.access_key_id, secret, session_token)
    with patch("botocore.auth.get_current_datetime", return_value=at.replace(tzinfo=None)):
        SigV4QueryAuth(credentials, service, region, expires=expires).add_auth(request)
    text = request.url.replace("https://", "") + "&Version=1"
    return bearer.PREFIX + base64.b64encode(text.encode()).decode()


def checked(token: str, now: datetime = NOW) -> Key:
    return bearer.verify(token, {KEY.access_key_id: KEY}.get, region="us-east-1", service="sagemaker", now=now)


def text_of(token: str) -> str:
    return base64.b64decode(token.removeprefix(bearer.PREFIX)).decode()


def with_text(text: str) -> str:
    return bearer.PREFIX + base64.b64encode(text.encode()).decode()


def test_a_generated_token_is_its_keys() -> None:
    assert checked(generated()) == KEY
    assert bearer.key_id_of(generated()) == KEY.access_key_id


@pytest.mark.parametrize("seconds", [1, 900, 43200])
def test_a_token_issued_here_is_the_one_that_the_generator_makes(seconds: int) -> None:
    issued = bearer.issue(KEY, region="us-east-1", service="sagemaker", now=NOW, seconds=seconds)
    assert issued == generated(expires=seconds)


@pytest.mark.parametrize("seconds", [0, -1, 43201])
def test_no_token_is_issued_for_longer_than_it_may_be_good(seconds: int) -> None:
    with pytest.raises(ValueError, match="43200"):
        bearer.issue(KEY, region="us-east-1", service="sagemaker", now=NOW, seconds=seconds)


@given(seconds=st.integers(1, 43200), later=st.integers(0, 50000))
def test_a_token_is_good_until_its_seconds_are_over(seconds: int, later: int) -> None:
    token = bearer.issue(KEY, region="us-east-1", service="sagemaker", now=NOW, seconds=seconds)
    now = NOW + timedelta(seconds=later)
    if later < seconds:
        assert checked(token, now) == KEY
    else:
        with pytest.raises(ExpiredToken, match="expired"):
            checked(token, now)


def test_a_token_from_the_future_is_refused() -> None:
    assert checked(generated(at=NOW + timedelta(minutes=4))) == KEY
    with pytest.raises(InvalidSignature, match="not good before"):
        checked(generated(at=NOW + timedelta(minutes=6)))


def test_a_token_made_with_another_secret_is_refused() -> None:
    with pytest.raises(InvalidSignature, match="does not match"):
        checked(generated(secret="another"))


def test_a_token_of_a_stranger_or_of_temporary_credentials_is_refused() -> None:
    with pytest.raises(UnrecognizedClient):
        bearer.verify(generated(), {}.get, region="us-east-1", service="sagemaker", now=NOW)
    with pytest.raises(UnrecognizedClient):
        checked(generated(session_token="FwoGZXIvYXdzE+/=" * 20))


@pytest.mark.parametrize(("region", "service"), [("eu-west-1", "sagemaker"), ("us-east-1", "bedrock")])
def test_a_token_for_elsewhere_is_refused(region: str, service: str) -> None:
    with pytest.raises(InvalidSignature, match=region):
        checked(generated(region=region, service=service))


@pytest.mark.parametrize("expires", [0, 43201, 999999, -5])
def test_a_signed_lifetime_beyond_the_limit_is_refused(expires: int) -> None:
    with pytest.raises(IncompleteSignature, match="43200"):
        checked(generated(expires=expires))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "sk-123",
        bearer.PREFIX,
        bearer.PREFIX + "!!!",
        with_text("sagemaker.amazonaws.com/?&Version=1"),
        with_text("evil.example.com/" + text_of(generated()).partition("/")[2]),
        with_text(text_of(generated()).removesuffix("&Version=1")),
        with_text(text_of(generated()).replace("&X-Amz-Signature=", "&X-Amz-Other=")),
        with_text(text_of(generated()).replace("SignedHeaders=host", "SignedHeaders=")),
        with_text(text_of(generated()).replace("&Version=1", "&X-Amz-Expires=9&Version=1")),
        bearer.PREFIX + "A" * bearer.TOKEN_LIMIT,
        generated(action="Other"),
    ],
)
def test_what_is_no_token_is_said_to_be_none(token: str) -> None:
    with pytest.raises(IncompleteSignature):
        checked(token)


@given(place=st.integers(0, 5000), byte=st.characters(codec="ascii", exclude_categories=("Cc",)))
def test_a_token_changed_in_any_place_is_refused_or_means_the_same(place: int, byte: str) -> None:
    text = text_of(generated())
    place %= len(text)
    changed = text[:place] + byte + text[place + 1 :]
    try:
        key = checked(with_text(changed))
    except AuthenticationError:
        return
    assert changed.replace("+", "%20").lower() == text.lower() or changed == text
    assert key == KEY


@pytest.mark.django_db
def test_the_command_prints_a_token_of_the_bootstrap_key() -> None:
    call_command("bootstrap")
    printed = StringIO()
    call_command("token", seconds=60, stdout=printed)
    token = printed.getvalue().strip()
    assert token.startswith(bearer.PREFIX)
    assert "X-Amz-Expires=60&" in text_of(token)
    own = Key(settings.HEADRACE.access_key_id, settings.HEADRACE.secret_access_key, ACCOUNT)
    found = bearer.verify(token, {own.access_key_id: own}.get, region="us-east-1", service="sagemaker", now=clock.now())
    assert found == own
    with pytest.raises(CommandError, match="no active access key"):
        call_command("token", key="nobody")
    with pytest.raises(CommandError, match="43200"):
        call_command("token", seconds=50000)

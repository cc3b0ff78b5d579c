"""Clients of the tests take the keys of the moment, and leave none behind."""

import boto3
import pytest

from tests import aws


def key_of(**options: str) -> str:
    """The access key that a new client signs with."""
    client = aws.client("s3", region_name="us-east-1", **options)
    return str(client._request_signer._credentials.access_key)


def test_a_client_has_the_keys_that_the_environment_holds_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of()
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "other")
        assert key_of() == "AKIAOTHER"
    assert key_of() == before != "AKIAOTHER"
    assert key_of(aws_access_key_id="AKIAGIVEN", aws_secret_access_key="given") == "AKIAGIVEN"


def test_nobody_has_used_the_session_that_all_would_share() -> None:
    key_of()
    assert boto3.DEFAULT_SESSION is None

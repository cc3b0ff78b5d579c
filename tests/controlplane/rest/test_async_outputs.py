"""The answer of an asynchronous request over its resource path: what Headrace itself stored, and nothing else."""

import asyncio
import os
from typing import Any
from uuid import uuid4

import pytest
from botocore.config import Config
from django.conf import settings

from controlplane.invocations.models import AsyncInvocation
from tests import aws
from tests.controlplane.invocations.letters import endpoint, letter
from tests.controlplane.rest.conftest import OTHER_ACCOUNT, Ask
from tests.workers.plane import Plane
from workers.invocations.store import Store

LARGE = os.urandom(1_000_003)


@pytest.fixture
def bucket() -> str:
    name = f"answers-{uuid4().hex[:12]}"
    store().create_bucket(Bucket=name)
    return name


def store() -> Any:
    """The store as its owner sees it."""
    plane = settings.HEADRACE
    path = Config(s3={"addressing_style": "path"})
    return aws.client("s3", endpoint_url=plane.s3_endpoint_url, region_name=plane.region, config=path)


def answered(plane: Plane, bucket: str, body: bytes, content_type: str = "text/html") -> AsyncInvocation:
    """A completed request whose answer was stored as the workers store it."""
    now = plane.clock.now()
    row = letter(endpoint(now), now, "completed", output_location=f"s3://{bucket}/out/{uuid4()}.out")

    async def write() -> None:
        writer = Store(settings.HEADRACE.s3_endpoint_url, settings.HEADRACE.region)
        await writer.put(row.output_location, body, content_type, row.id)
        writer.close()

    asyncio.run(write())
    return row


def path_of(row: AsyncInvocation) -> str:
    return f"/api/v1/async-requests/{row.id}/output"


@pytest.mark.parametrize("body", [b"", b"\x00\xff answer", LARGE], ids=["empty", "small", "large"])
def test_an_answer_comes_byte_for_byte_as_something_to_save(plane: Plane, ask: Ask, bucket: str, body: bytes) -> None:
    row = answered(plane, bucket, body)
    found = ask("GET", path_of(row))
    assert (found.status, found.content) == (200, body)
    assert found.headers["Content-Type"] == "application/octet-stream"
    assert found.headers["Content-Length"] == str(len(body))
    assert found.headers["Content-Disposition"].startswith("attachment")
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert found.headers["Headrace-Content-Type"] == "text/html"


@pytest.mark.parametrize("state", ["queued", "running", "failed", "expired", "cancelled"])
def test_a_request_without_an_answer_says_how_it_stands(plane: Plane, ask: Ask, state: str) -> None:
    now = plane.clock.now()
    row = letter(endpoint(now), now, state)
    found = ask("GET", path_of(row))
    assert (found.status, found.code) == (400, "ValidationException")
    assert f"it is {state}" in found.body["message"]
    assert row.outcome_text in found.body["message"]


def test_an_object_that_another_wrote_at_the_location_is_not_given_out(plane: Plane, ask: Ask, bucket: str) -> None:
    row = answered(plane, bucket, b"mine")
    _, _, key = row.output_location.removeprefix("s3://").partition("/")
    for metadata in ({}, {"headrace-invocation": str(uuid4())}):
        store().put_object(Bucket=bucket, Key=key, Body=b"a secret of somebody else", Metadata=metadata)
        found = ask("GET", path_of(row))
        assert (found.status, found.code) == (400, "ResourceNotFound")
        assert b"secret" not in found.content
    store().delete_object(Bucket=bucket, Key=key)
    assert "is no longer at s3://" in ask("GET", path_of(row)).body["message"]


def test_another_account_fetches_nothing(plane: Plane, ask: Ask, bucket: str) -> None:
    row = answered(plane, bucket, b"mine")
    found = ask("GET", path_of(row), account=OTHER_ACCOUNT)
    assert (found.status, found.code) == (400, "ResourceNotFound")
    assert ask("GET", f"/api/v1/async-requests/{uuid4()}/output").code == "ResourceNotFound"

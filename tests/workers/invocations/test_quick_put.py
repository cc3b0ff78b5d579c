"""Small objects put without the SDK: by the real store, which checks signatures, and by what is no such store."""

import asyncio
from uuid import uuid4

import pytest
from botocore.credentials import Credentials
from django.conf import settings
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.controlplane.routing.peers import free_port
from tests.workers.invocations.site import BUCKET, object_at, s3
from workers.invocations.quick_put import SMALL_BYTES, QuickPut
from workers.invocations.store import MARK, Store

KEYS = st.text(
    st.characters(codec="utf-8", categories=["L", "N"]) | st.sampled_from(" +%&=?#~._-"), min_size=1, max_size=20
)


def quick_put(url: str = "", secret: str = "") -> QuickPut:
    env = settings.HEADRACE
    credentials = Credentials(env.access_key_id, secret or env.secret_access_key)
    return QuickPut(url or env.s3_endpoint_url, env.region, credentials)


def put(putting: QuickPut, key: str, body: bytes = b"x") -> bool:
    async def run() -> bool:
        try:
            return await putting(BUCKET, key, body, {"content-type": "text/plain", f"x-amz-meta-{MARK}": "me"})
        finally:
            putting.close()

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def bucket() -> None:
    """The bucket of these tests."""
    s3()


def test_the_object_is_there_with_its_type_and_its_mark() -> None:
    key = f"quick/{uuid4()}.out"
    assert put(quick_put(), key, b"an answer")
    found = s3().get_object(Bucket=BUCKET, Key=key)
    assert (found["Body"].read(), found["ContentType"], found["Metadata"]) == (b"an answer", "text/plain", {MARK: "me"})


@hypothesis_settings(max_examples=25, deadline=None)
@given(name=KEYS)
def test_whatever_the_key_holds_the_store_agrees_with_the_signature(name: str) -> None:
    key = f"keys/{name}x"
    assert put(quick_put(), key, name.encode())
    assert object_at(f"s3://{BUCKET}/{key}") == name.encode()


def test_a_signature_that_the_store_refuses_is_left_to_the_sdk() -> None:
    assert not put(quick_put(secret="wrong"), "never")


def test_a_store_that_does_not_answer_is_left_to_the_sdk() -> None:
    assert not put(quick_put(f"http://127.0.0.1:{free_port()}"), "never")


@pytest.mark.parametrize("url", ["https://s3.us-east-1.amazonaws.com", "http://127.0.0.1:1/behind/a/path"])
def test_a_store_at_another_kind_of_address_is_left_to_the_sdk(url: str) -> None:
    assert not put(quick_put(url), "never")


def test_a_large_object_is_left_to_the_sdk() -> None:
    key = f"quick/{uuid4()}"
    assert not put(quick_put(), key, b"x" * (SMALL_BYTES + 1))
    assert object_at(f"s3://{BUCKET}/{key}") is None


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES, SMALL_BYTES + 1])
def test_the_store_keeps_every_size_by_one_way_or_the_other(size: int) -> None:
    env, place, owner = settings.HEADRACE, f"s3://{BUCKET}/sizes/{uuid4()}", uuid4()

    async def run() -> bool:
        store = Store(env.s3_endpoint_url, env.region)
        try:
            await store.put(place, b"y" * size, "text/plain", owner)
            return await store.has(place, owner)
        finally:
            store.close()

    assert asyncio.run(run())
    assert object_at(place) == b"y" * size

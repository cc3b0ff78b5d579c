"""A store that says no to one request says nothing about the next."""

from uuid import uuid4

import pytest
from django.conf import settings

from tests.controlplane.gateway.site import Container
from tests.workers.invocations.site import BUCKET, do, object_at, queue_up, run_once, s3
from workers.invocations.quick_put import SMALL_BYTES
from workers.invocations.store import PART_BYTES, Store, StoreRefused

LONG = "x" * 300


@pytest.mark.parametrize("size", [10, SMALL_BYTES + 1, PART_BYTES + 1], ids=["small", "whole", "in parts"])
def test_what_one_output_is_told_is_not_what_the_next_payload_is_told(size: int) -> None:
    """They share connections: an answer to an unsent body must not be taken for the answer to the next request."""
    s3().put_object(Bucket=BUCKET, Key="in/innocent", Body=b"payload")

    async def work() -> None:
        store = Store(settings.HEADRACE.s3_endpoint_url, "us-east-1")
        for _ in range(3):
            with pytest.raises(StoreRefused, match="NoSuchBucket"):
                await store.put("s3://no-such-bucket/out", b"x" * size, "text/plain", uuid4())
            assert await store.read(f"s3://{BUCKET}/in/innocent", 100) == ("application/octet-stream", b"payload")
        store.close()

    do(work())


@pytest.mark.django_db(transaction=True)
def test_an_answer_whose_place_cannot_be_ends_soon_and_says_so(model: Container) -> None:
    """The embedded store keeps files; it will not keep this one in an hour either."""
    row = run_once(queue_up(b"hello", output_location=f"s3://{BUCKET}/out/{LONG}/a.out"), model.address)
    assert (row.state, row.failure_kind) == ("failed", "output_store")
    assert b"bytes" in (object_at(row.failure_location) or b"")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", [LONG, "in/innocent/below"])
def test_a_payload_whose_place_cannot_be_is_missing(model: Container, key: str) -> None:
    s3().put_object(Bucket=BUCKET, Key="in/innocent", Body=b"payload")
    row = run_once(queue_up(input_location=f"s3://{BUCKET}/{key}"), model.address)
    assert (row.state, row.failure_kind) == ("failed", "input_missing")

"""What a store of files cannot keep: it says no, and not that it should be asked again."""

from typing import Any
from uuid import uuid4

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from django.conf import settings

from controlplane.embedded.nanio_files import NAME_BYTES
from tests import aws

LONG = "x" * (NAME_BYTES + 1)


@pytest.fixture(scope="module")
def store() -> Any:
    """A client of the embedded store that asks once."""
    once = Config(retries={"total_max_attempts": 1})
    return aws.client("s3", endpoint_url=settings.HEADRACE.s3_endpoint_url, region_name="us-east-1", config=once)


@pytest.fixture(scope="module")
def bucket(store: Any) -> str:
    name = f"files-{uuid4().hex[:8]}"
    store.create_bucket(Bucket=name)
    store.put_object(Bucket=name, Key="out/a", Body=b"an object")
    return name


def code(call: Any, **members: Any) -> tuple[int, str]:
    """The status and the code of a refusal."""
    with pytest.raises(ClientError) as caught:
        call(**members)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


@pytest.mark.parametrize(
    "key", [LONG, f"out/{LONG}/b", "out/a/b", "out"], ids=["long", "long inside", "below an object", "a folder"]
)
def test_a_key_that_has_no_place_among_files_is_refused_for_good(store: Any, bucket: str, key: str) -> None:
    assert code(store.put_object, Bucket=bucket, Key=key, Body=b"x") == (400, "InvalidObjectName")
    assert store.get_object(Bucket=bucket, Key="out/a")["Body"].read() == b"an object"


@pytest.mark.parametrize(
    "key", [LONG, f"out/{LONG}/b", "out/a/b", "out"], ids=["long", "long inside", "below an object", "a folder"]
)
def test_and_nothing_is_there(store: Any, bucket: str, key: str) -> None:
    assert code(store.get_object, Bucket=bucket, Key=key) == (404, "NoSuchKey")
    assert code(store.head_object, Bucket=bucket, Key=key)[0] == 404


def test_the_longest_name_is_kept(store: Any, bucket: str) -> None:
    store.put_object(Bucket=bucket, Key=f"long/{LONG[1:]}", Body=b"x")
    assert store.get_object(Bucket=bucket, Key=f"long/{LONG[1:]}")["Body"].read() == b"x"


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_put_that_is_refused_leaves_the_next_call_on_its_connection_alone(store: Any, bucket: str, size: int) -> None:
    """The SDK asks first, hears no, keeps its body and uses the connection for whatever comes next."""
    for _ in range(3):
        assert code(store.put_object, Bucket="no-such-bucket", Key="a", Body=b"x" * size) == (404, "NoSuchBucket")
        assert store.get_object(Bucket=bucket, Key="out/a")["Body"].read() == b"an object"


def test_a_put_is_read_before_it_is_answered_where_it_is_good(store: Any, bucket: str) -> None:
    for number in range(3):
        store.put_object(Bucket=bucket, Key="out/a", Body=b"an object")
        assert store.get_object(Bucket=bucket, Key="out/a")["Body"].read() == b"an object", number

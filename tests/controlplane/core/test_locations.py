"""How long a key may be."""

import pytest

from controlplane.core.locations import fits, key_bytes


@pytest.mark.parametrize(
    ("location", "expected"),
    [("s3://bucket", 0), ("s3://bucket/", 0), ("s3://bucket/\u65e5", 3), ("s3://bucket/s3://b/k", 8)],
)
def test_a_key_is_what_follows_the_bucket(location: str, expected: int) -> None:
    assert key_bytes(location) == expected


@pytest.mark.parametrize(("length", "expected"), [(1023, True), (1024, True), (1025, False)])
@pytest.mark.parametrize("bucket", ["b", "b" * 63])
def test_a_key_fits_up_to_its_limit_whatever_the_bucket(bucket: str, length: int, *, expected: bool) -> None:
    assert fits(f"s3://{bucket}/{'k' * length}") is expected

"""Objects as a storage takes and gives them."""

from collections.abc import AsyncIterator

from nanio.errors import NoSuchKey

from controlplane.embedded.small_objects.storage import Storage

BUCKET = "bucket"


async def body_of(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 40_000):
        yield data[start : start + 40_000]


async def read(storage: Storage, key: str) -> bytes | None:
    """The object's bytes, in full or not at all."""
    try:
        found = await storage.get_object(BUCKET, key)
    except NoSuchKey:
        return None
    data = b"".join([chunk async for chunk in found.body])
    assert found.info.size == len(data)
    return data

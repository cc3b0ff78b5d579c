"""Places in an object store, as s3:// locations name them. Pure.

    s3://bucket/key      the bucket is what is up to the first slash; the key is the rest as it is, nothing in it is quoted

Source of the limit: S3's user guide, "Naming Amazon S3 objects": the UTF-8 of a key may hold 1,024 bytes.
"""

KEY_LIMIT_BYTES = 1024


def key_bytes(location: str) -> int:
    """The length of the location's key in bytes."""
    return len(location.removeprefix("s3://").partition("/")[2].encode())


def fits(location: str) -> bool:
    """Whether a store could keep an object there, as far as the length of its key goes; `location` is ASCII."""
    return len(location) <= KEY_LIMIT_BYTES or key_bytes(location) <= KEY_LIMIT_BYTES

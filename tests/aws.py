"""boto3's clients, as tests make them: with the keys that the environment holds now.

boto3's default session keeps the keys that it finds first for the rest of the process. A test that sets other keys for
itself, and makes a client, would leave them to all tests after it: nothing here uses that session, and ruff sees to it.
"""

import os
from functools import cache
from typing import Any

import boto3


def client(service: str, **options: Any) -> Any:
    """An unmodified client; `options` as boto3 has them, keys among them."""
    return _session(os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")).client(service, **options)


@cache
def _session(access_key_id: str | None, secret_access_key: str | None) -> boto3.Session:
    """One for each pair of keys: each reads the services' models, of megabytes, afresh."""
    return boto3.Session(access_key_id, secret_access_key)

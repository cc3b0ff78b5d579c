"""A running Headrace, its document, and a token: all that whoever generates a client has."""

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import bucket, stack
from tests.system.raw import ask
from tests.system.stack import Stack

__all__ = ["bucket", "stack"]


@pytest.fixture(scope="package")
def document(stack: Stack) -> dict[str, Any]:
    """The OpenAPI document, as anybody may fetch it."""
    with urllib.request.urlopen(f"{stack.url}/api/v1/schema/") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@pytest.fixture(scope="package")
def token(stack: Stack) -> str:
    """The secret of an operator's token, made by the holder of the key."""
    made = ask(stack, "POST", "/api/v1/tokens", {"Name": "generated clients", "Role": "operator"})
    assert made.status == 201, made.body
    return str(made.document["Secret"])


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a client is generated; gone after the test."""
    made = Path(tempfile.mkdtemp(prefix="headrace-clients-"))
    yield made
    shutil.rmtree(made)

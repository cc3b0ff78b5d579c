"""The document against the server: nothing that it allows or forbids finds a fault, a drift, or a door left open."""

from typing import Any

import pytest

from tests.clients.fuzz import fuzz
from tests.system.stack import Stack

SEED = 1


@pytest.mark.timeout(600)
def test_the_fuzzer_finds_nothing(stack: Stack, document: dict[str, Any]) -> None:
    operations = sum(len(methods) for methods in document["paths"].values())
    found = fuzz(stack, SEED)
    assert found.returncode == 0, found.stdout[-12_000:] + found.stderr[-2000:]
    assert f"Tested: {operations}" in found.stdout, found.stdout[-2000:]

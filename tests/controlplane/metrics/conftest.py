"""Calling the operations as a client's account would."""

from collections.abc import Callable
from typing import Any

import pytest

from controlplane.config.operations import MODULES
from controlplane.core.ids import new_uuid
from controlplane.wire.registry import Context, handler_of
from controlplane.wire.services import CLOUDWATCH
from tests.engines_plugin import ACCOUNT
from tests.fakes.clock import FakeClock

assert MODULES, "importing them registered the operations"

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(db: None, fake_clock: FakeClock) -> Call:
    """Call an operation at the fake clock's time; `account` is whose."""

    def ask(operation: str, account: str = ACCOUNT, **params: Any) -> dict[str, Any]:
        context = Context(account, "key", "us-east-1", str(new_uuid()), fake_clock.now())
        return handler_of(operation, CLOUDWATCH)(context, params)

    return ask

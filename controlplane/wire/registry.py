"""Which function answers which operation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.core.errors import UnknownOperationException
from controlplane.wire.services import SAGEMAKER, Service


@dataclass(frozen=True)
class Context:
    """Who asks, and when. `account_id` comes from the credential alone."""

    account_id: str
    access_key_id: str
    region: str
    request_id: str
    now: datetime


QUOTED_LIMIT = 64
"""Characters of an unknown operation's name that are quoted back; the longest real one has about 50."""

Handler = Callable[[Context, Mapping[str, Any]], dict[str, Any]]

_HANDLERS: dict[tuple[str, str], Handler] = {}


def operation(name: str, service: Service = SAGEMAKER) -> Callable[[Handler], Handler]:
    """Register the decorated function as the handler of a service's operation: validated params in, answer members out."""

    def register(handler: Handler) -> Handler:
        if _HANDLERS.setdefault((service.model, name), handler) is not handler:
            raise AssertionError(f"operation {name} has two handlers")
        return handler

    return register


def handler_of(name: str, service: Service = SAGEMAKER) -> Handler:
    """The handler of a service's operation; raises UnknownOperationException."""
    handler = _HANDLERS.get((service.model, name))
    if handler is None:
        raise UnknownOperationException(f"The operation {name[:QUOTED_LIMIT]!r} is not supported by Headrace.")
    return handler


def operation_names(service: Service = SAGEMAKER) -> frozenset[str]:
    """Every operation of a service that has a handler."""
    return frozenset(name for model, name in _HANDLERS if model == service.model)

"""Providers are asked outside transactions only (`controlplane.core.outside`)."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from controlplane.core.outside import must_be_outside

CALLS = ("launch", "find", "describe", "terminate", "list_owned", "ping", "free_slots")
"""What may reach for the provider; `free_slots` where it has that."""

P = TypeVar("P", bound=type)


def outside_transactions(provider: P) -> P:
    """For the class of a provider: each of its CALLS raises CalledInsideTransaction inside one, and then asks nothing."""
    for name in CALLS:
        if hasattr(provider, name):
            setattr(provider, name, _checked(f"{provider.__name__}.{name}", getattr(provider, name)))
    return provider


def _checked(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        must_be_outside(name)
        return call(*args, **kwargs)

    return checked

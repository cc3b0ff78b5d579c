"""Who acts: named where a request comes in, read where an event is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HEADRACE = "headrace"
"""The control plane itself: its scans, its workers, its own alarms."""

SHELL = "manage.py"
"""Whoever has a shell on the host, and with it every right."""

_ACTOR: ContextVar[str] = ContextVar("actor", default=HEADRACE)


@contextmanager
def acting(name: str) -> Iterator[None]:
    """Everything recorded inside is the act of `name`, such as `key AKIA...`, `token ci` or `operator alice`."""
    token = _ACTOR.set(name)
    try:
        yield
    finally:
        _ACTOR.reset(token)


def become(name: str) -> None:
    """Go on as `name` until the surrounding `acting` ends, where only what is inside finds out who asks."""
    _ACTOR.set(name)


def current() -> str:
    """Who acts now."""
    return _ACTOR.get()

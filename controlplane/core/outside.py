"""No call leaves the process while a transaction is open: the rule, as a check that ships.

A transaction that waits for somebody else holds its locks and its connection for as long as they please, and what they have
done by then is not undone when it is rolled back. So whatever calls out asks here first. Pure: who knows of transactions
says so once (`watch`); the gateway, which has none of Django's, never does.
"""

from collections.abc import Callable


class CalledInsideTransaction(RuntimeError):
    """A fault of Headrace: something was to be asked of another system while a transaction was open."""


_watches: dict[str, Callable[[], bool]] = {}


def watch(name: str, is_inside: Callable[[], bool]) -> None:
    """From now on `is_inside` is asked, too, whether this thread has a transaction open; `name` says of what."""
    _watches[name] = is_inside


def must_be_outside(call: str) -> None:
    """Raise CalledInsideTransaction, which names `call`, if this thread has a transaction open."""
    if any(is_inside() for is_inside in _watches.values()):
        raise CalledInsideTransaction(f"{call} was called inside a transaction.")

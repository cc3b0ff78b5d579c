"""The balancer at work: what each call ended in is told to it, and ejections are told to the log.

ModelError of a 5xx or of no answer, no connection    a failure of the instance
an answer, a 4xx of the model                         the instance does well
the client hung up, the gateway's own fault           says nothing about the instance
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from controlplane.core import clock
from controlplane.core.errors import ModelError
from controlplane.routing.balancer import Balancer
from controlplane.routing.table import Target
from controlplane.routing.upstream import ConnectFailed, UpstreamError

log = logging.getLogger(__name__)


@contextmanager
def call_at(balancer: Balancer, target: Target) -> Iterator[None]:
    """Count a call as under way at this instance for as long as the context lasts, and note what it ended in."""
    balancer.in_flight.begin(target.instance_id)
    with ending(balancer, target):
        yield


@contextmanager
def ending(balancer: Balancer, target: Target) -> Iterator[None]:
    """The rest of a call that is counted as under way already."""
    try:
        yield
    except BaseException as error:
        ended(balancer, target, error)
        raise
    ended(balancer, target, None)


def ended(balancer: Balancer, target: Target, error: BaseException | None) -> None:
    """Count a call as no longer under way, and note what it ended in; None = an answer."""
    balancer.in_flight.end(target.instance_id)
    failure = "" if error is None else _failure(error)
    if failure:
        _failed(balancer, target, failure)
    elif error is None or isinstance(error, ModelError):
        balancer.succeeded(target.instance_id, clock.monotonic())


def _failure(error: BaseException) -> str:
    """What the instance did wrong; empty where it did well, or where the error says nothing about it."""
    if isinstance(error, ConnectFailed):
        return "cannot be reached"
    if isinstance(error, UpstreamError):
        return "breaks its answers off"
    if not isinstance(error, ModelError):
        return ""
    status = error.extra.get("OriginalStatusCode", 0)
    if isinstance(status, int) and 400 <= status < 500:
        return ""
    return f"answers {status}" if status else "gives no answer"


def _failed(balancer: Balancer, target: Target, how: str) -> None:
    if balancer.failed(target.instance_id, clock.monotonic()):
        where = f"{target.instance_id} at {target.address}"
        log.warning("instance %s is passed over for a while, as far as others can serve: it %s", where, how)

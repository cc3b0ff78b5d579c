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
    with balancer.in_flight.call(target.instance_id):
        try:
            yield
        except ConnectFailed:
            _failed(balancer, target, "cannot be reached")
            raise
        except ModelError as error:
            status = error.extra.get("OriginalStatusCode", 0)
            if isinstance(status, int) and 400 <= status < 500:
                balancer.succeeded(target.instance_id, clock.monotonic())
            else:
                _failed(balancer, target, f"answers {status}" if status else "gives no answer")
            raise
        except UpstreamError:
            _failed(balancer, target, "breaks its answers off")
            raise
        else:
            balancer.succeeded(target.instance_id, clock.monotonic())


def _failed(balancer: Balancer, target: Target, how: str) -> None:
    if balancer.failed(target.instance_id, clock.monotonic()):
        where = f"{target.instance_id} at {target.address}"
        log.warning("instance %s is passed over for a while, as far as others can serve: it %s", where, how)

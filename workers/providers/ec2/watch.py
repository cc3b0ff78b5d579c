"""Asking for notices now and then, whoever describes instances."""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from controlplane.core import clock
from workers.providers.ec2.calls import pages
from workers.providers.ec2.notices import (
    EVENT_CODES,
    EVENTS_SECONDS,
    SPOT_CODES,
    SPOT_SECONDS,
    Notice,
    event_notices,
    spot_notices,
)
from workers.providers.errors import ProviderError

log = logging.getLogger(__name__)


class Watch:
    """The notices that are known, each kind as old as its period at most. One thread asks, the others take what is known.

    A notice is an extra: when EC2 does not answer, what was known before goes on and the next look comes in its turn.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._spot_asked_at = self._events_asked_at = float("-inf")
        self._spot: Mapping[str, Notice] = {}
        self._events: Mapping[str, Notice] = {}

    def notices(self, *, has_spot: bool) -> dict[str, Notice]:
        """What is known, by instance id; interruptions are asked for only where there are spot instances."""
        if self._lock.acquire(blocking=False):
            try:
                self._refresh(has_spot=has_spot)
            finally:
                self._lock.release()
        return {**self._events, **self._spot}

    def _refresh(self, *, has_spot: bool) -> None:
        now = clock.monotonic()
        try:
            if has_spot and now - self._spot_asked_at >= SPOT_SECONDS:
                self._spot_asked_at = now
                self._spot = self._ask_for_interruptions()
            if now - self._events_asked_at >= EVENTS_SECONDS:
                self._events_asked_at = now
                self._events = self._ask_for_events()
        except ProviderError as error:
            log.warning("notices of EC2 could not be had, asked again later: %s", error)

    def _ask_for_interruptions(self) -> dict[str, Notice]:
        filters = [{"Name": "status-code", "Values": list(SPOT_CODES)}]
        return spot_notices(pages(self._client.describe_spot_instance_requests, "SpotInstanceRequests", Filters=filters))

    def _ask_for_events(self) -> dict[str, Notice]:
        filters = [{"Name": "event.code", "Values": list(EVENT_CODES)}]
        return event_notices(pages(self._client.describe_instance_status, "InstanceStatuses", Filters=filters))

"""Holding coming-home moves back: whoever watches an incident wants a fleet that does not move by itself.

A pause keeps new moves from starting (see `workers.fleet.homing`). One that is under way goes on: its replacement runs
already, and half a move would cost more than a whole one.
"""

from datetime import datetime

from django.db import transaction

from controlplane.core import actor
from controlplane.core.errors import ValidationException, in_progress
from controlplane.core.ids import Arn
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.selectors import options_of
from controlplane.endpoints.states import Phase
from controlplane.endpoints.wishes import locked, look_again, tell


def pause(*, arn: Arn, now: datetime) -> Endpoint:
    """Start no coming-home move until `resume`; repeating it changes nothing. Refuses an endpoint without the option."""
    with transaction.atomic():
        endpoint = _locked(arn)
        if options_of(endpoint).home_after_seconds is None:
            raise ValidationException(f'Endpoint "{arn}" does not come home: it has no tag headrace:coming-home.')
        if endpoint.home_paused_at is None:
            _set(endpoint, now, now, actor.current())
            tell(endpoint, "ComingHomePaused", f"Coming home is paused: no instance of {arn.name} moves by itself.", now)
    return endpoint


def resume(*, arn: Arn, now: datetime) -> Endpoint:
    """Let coming-home moves start again; repeating it changes nothing."""
    with transaction.atomic():
        endpoint = _locked(arn)
        if endpoint.home_paused_at is not None:
            _set(endpoint, now, None, "")
            tell(endpoint, "ComingHomeResumed", f"Coming home goes on: fallbacks of {arn.name} move again.", now)
    return endpoint


def _locked(arn: Arn) -> Endpoint:
    endpoint = locked(arn)
    if endpoint.phase == Phase.DELETING:
        raise in_progress("endpoint", str(arn))
    return endpoint


def _set(endpoint: Endpoint, now: datetime, paused_at: datetime | None, by: str) -> None:
    endpoint.home_paused_at, endpoint.home_paused_by = paused_at, by
    endpoint.save(update_fields=["home_paused_at", "home_paused_by"])
    look_again(endpoint, now)

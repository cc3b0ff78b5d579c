"""Launching: intent, call, outcome; never fewer steps.

    commit LaunchAttempt(token) --> call the provider, no transaction open --> commit the outcome, guarded by the claim

A crash after the first step leaves an open attempt; `resolve` asks the provider about its token and finishes the story.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from controlplane.auth.models import Installation
from controlplane.core import clock
from controlplane.core.ids import new_token
from controlplane.core.offerings import Search, is_out_after
from controlplane.fleet.models import LaunchAttempt
from controlplane.fleet.states import AttemptStage
from workers.fleet import events, first_ask, memory, moves
from workers.fleet import launch_outcomes as outcomes
from workers.fleet.actions import Launch, ResolveAttempt
from workers.loop.lease import Claim
from workers.providers import registry
from workers.providers.base import LaunchRequest, Provider
from workers.providers.errors import ErrorKind, ProviderError

_TOLD_BY_TOKEN = (ErrorKind.CAPACITY, ErrorKind.QUOTA)
"""Refusals of a repeat that a provider gives only where its token has launched nothing. Any other may have been given
before the token was looked at, and says nothing of what the first call did."""

log = logging.getLogger(__name__)


def launch(action: Launch, claim: Claim) -> bool:
    """Start the action's instances one by one until one is refused; always changes facts."""
    for number in range(action.count):
        attempt = _intend(action, claim, announce=number == 0)
        if attempt is None or not _call(attempt, claim, _out_of_pools(action)):
            break
    return True


def resolve(action: ResolveAttempt, claim: Claim) -> bool:
    """Finish the story of a launch whose outcome was lost; False when the provider still cannot say."""
    attempt = LaunchAttempt.objects.select_related("pool", "variant", "endpoint").get(token=action.attempt.token)
    if not action.is_wanted:
        return _find(attempt, claim)
    rests_until = attempt.variant.launch_not_before
    if rests_until is not None and rests_until > clock.now():
        return False
    return _repeat(attempt, claim)


def _out_of_pools(action: Launch) -> Callable[[], bool]:
    search = Search(action.variant.offerings, action.variant.short_since, headroom=action.headroom)
    return lambda: is_out_after(search, action.offering, clock.now())


def _intend(action: Launch, claim: Claim, *, announce: bool) -> LaunchAttempt | None:
    """Commit the intent to launch; None when a half-open offering is being probed by somebody else, when another endpoint
    is finding out about this one, or when as many instances come home as may at once."""
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        attempt = LaunchAttempt(
            token=new_token(),
            endpoint_id=claim.endpoint_id,
            variant_id=action.variant.id,
            pool_id=action.offering.pool.id,
            provider=settings.HEADRACE.provider,
            zone=action.offering.zone,
            market=action.offering.market,
            hourly_price=action.offering.hourly_price,
            instance_type=action.offering.pool.instance_type,
            replaces=action.replaces or None,
            stage=AttemptStage.INTENDED,
            is_probe=action.is_probe,
            called_at=now,
        )
        if action.replaces and not moves.may_start(attempt, now):
            return None
        if action.is_probe and not memory.take_probe(attempt, now):
            return None
        if action.offering.mark is None and (later := first_ask.wait_until(attempt, now)):
            outcomes.variant_of(attempt).update(launch_not_before=later)
            return None
        attempt.save(force_insert=True)
        if announce:
            detail = {"pool": attempt.instance_type, "zone": attempt.zone, "count": action.count}
            events.record(attempt.endpoint, "LaunchRequested", action.why, now, detail)
    return attempt


def _call(attempt: LaunchAttempt, claim: Claim, is_out_of_pools: Callable[[], bool]) -> bool:
    """Ask the provider for the instance and commit what came of it; True when it was launched."""
    provider = registry.get(attempt.provider)
    try:
        instance = provider.launch(_request(attempt))
    except ProviderError as error:
        outcomes.record_failure(attempt, claim, error, is_out_of_pools)
        return False
    outcomes.record_launch(attempt, claim, instance)
    return True


def _repeat(attempt: LaunchAttempt, claim: Claim) -> bool:
    """Ask again with the same token, which launches at most once; False when the outcome is still not known."""
    called_before, called_now = attempt.called_at, clock.now()
    _set_called_at(attempt, called_now, lambda: claim.confirm(called_now))
    try:
        instance = registry.get(attempt.provider).launch(_request(attempt))
    except ProviderError as error:
        if error.kind in outcomes.LOST:
            _still_unknown(attempt, claim, error)
            return False
        # Whatever the first call did, this one launched nothing: listings are as old as they were.
        _set_called_at(attempt, called_before, lambda: claim.renew(clock.now()))
        if error.kind not in _TOLD_BY_TOKEN:
            return _find(attempt, claim)
        outcomes.record_failure(attempt, claim, error, lambda: False)
        return True
    outcomes.record_launch(attempt, claim, instance)
    return True


def _set_called_at(attempt: LaunchAttempt, at: datetime, guard: Callable[[], None]) -> None:
    """Commit when the last call went out that may have launched: listings are believed a window after that one."""
    with transaction.atomic():
        guard()
        attempt.called_at = at
        attempt.save(update_fields=["called_at"])


def _still_unknown(attempt: LaunchAttempt, claim: Claim, error: ProviderError) -> None:
    """One lost reply after the other: told once, so that an hour without a provider is one event and not thousands; and
    asked ever less often, so that a provider that comes back is not met by everybody at once."""
    now = clock.now()
    if attempt.stage == AttemptStage.AMBIGUOUS:
        with transaction.atomic():
            claim.renew(now)
            outcomes.pause(attempt, attempt.variant.refusals + 1, now)
    else:
        outcomes.record_failure(attempt, claim, error, lambda: False)


def _find(attempt: LaunchAttempt, claim: Claim) -> bool:
    """Resolve an attempt without starting anything; False when it is too early to tell."""
    provider = registry.get(attempt.provider)
    try:
        instance = provider.find(attempt.token)
    except ProviderError as error:
        log.warning("attempt %s: the provider could not be asked: %s", attempt.token, error)
        return False
    if instance is not None:
        outcomes.record_launch(attempt, claim, instance)
        return True
    if not _is_settled(attempt, provider):
        return False
    with transaction.atomic():
        claim.renew(clock.now())
        outcomes.close(attempt, AttemptStage.ABSENT, "the provider knows no instance with this token")
    return True


def _is_settled(attempt: LaunchAttempt, provider: Provider) -> bool:
    """Whether the provider's listings must show the instance by now if there is one."""
    return clock.now() - attempt.called_at >= timedelta(seconds=provider.consistency_window_seconds)


def _request(attempt: LaunchAttempt) -> LaunchRequest:
    container = attempt.pool.container
    return LaunchRequest(
        token=attempt.token,
        owner=Installation.objects.values_list("owner", flat=True).get(),
        instance_type=attempt.instance_type,
        zone=attempt.zone,
        image=container["Image"],
        environment=container.get("Environment", {}),
        model_data_url=container.get("ModelDataUrl", ""),
        model_data_download_timeout_seconds=attempt.variant.download_timeout_seconds,
        labels={"endpoint": attempt.endpoint.name, "variant": attempt.variant.name},
        market=attempt.market,
    )

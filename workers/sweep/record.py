"""Writing down what the sweep found and what became of it. Each change is one guarded move and one sentence."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from controlplane.catalog.prices import hourly_price
from controlplane.core.offerings import ON_DEMAND
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import LaunchAttempt
from controlplane.observability import events
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OrphanState, sources_of
from controlplane.orphans.stories import subject_of
from workers.sweep.look import Sighted


def found(provider: str, sighted: Sighted, now: datetime) -> Orphan:
    """The row of a suspect, made at its first sight; told of when it is new or was lost once more."""
    if sighted.orphan is None:
        return _first_seen(provider, sighted, now)
    orphan = sighted.orphan
    Orphan.objects.filter(pk=orphan.pk).update(seen_at=now)
    if orphan.state in (OrphanState.ADOPTED, OrphanState.GONE):
        anew = {"asked_at": None, "asked_last_at": None, "asks": 0, "overdue_told_at": None}
        move(orphan, OrphanState.FOUND, "OrphanFound", f"{orphan} is orphaned again", now, **anew)
    orphan.refresh_from_db()
    return orphan


def _first_seen(provider: str, sighted: Sighted, now: datetime) -> Orphan:
    instance, attempt = sighted.instance, sighted.attempt
    market = attempt.market if attempt else ON_DEMAND
    price = attempt.hourly_price if attempt else None
    facts = {
        "token": instance.token,
        "instance_type": instance.instance_type,
        "zone": instance.zone,
        "market": market,
        "hourly_price": hourly_price(instance.instance_type, market) if price is None else float(price),
        "found_at": now,
        "seen_at": now,
        "state_since": now,
        **_origin(sighted),
    }
    with transaction.atomic():
        orphan, is_new = Orphan.objects.get_or_create(
            provider=provider, provider_id=instance.provider_id, launched_at=instance.launched_at, defaults=facts
        )
        if is_new:
            tell(orphan, "OrphanFound", f"{orphan} in {orphan.zone} belongs to no endpoint: {orphan.origin}", now)
    return orphan


def _origin(sighted: Sighted) -> Mapping[str, object]:
    """Whose launch made the instance, and what is known of it."""
    attempt = sighted.attempt
    if attempt is not None:
        return {
            "account_id": attempt.endpoint.account_id,
            "endpoint_id": attempt.endpoint_id,
            "endpoint_name": attempt.endpoint.name,
            "origin": _story_of(attempt),
        }
    launched = _launch_event(sighted)
    if launched is None:
        return {"origin": "nothing is known of its launch"}
    is_there = Endpoint.objects.filter(pk=launched.subject_id).exists()
    fate = "which no longer has it" if is_there else "which is deleted"
    return {
        "account_id": launched.account_id,
        "endpoint_id": launched.subject_id,
        "endpoint_name": launched.subject_name,
        "origin": f"it was launched for endpoint {launched.subject_name}, {fate}",
    }


def _story_of(attempt: LaunchAttempt) -> str:
    story = f"a launch for endpoint {attempt.endpoint.name} made it, closed as {attempt.stage}"
    return f"{story} ({attempt.message})" if attempt.message else story


def _launch_event(sighted: Sighted) -> Event | None:
    """The event that told of the launch: events outlive the endpoints they tell of."""
    since = sighted.instance.launched_at
    told = Event.objects.filter(at__gte=since, reason="InstanceLaunched")
    return told.filter(detail__provider_id=sighted.instance.provider_id).order_by("at").first()


def leave(orphan: Orphan, why: str) -> None:
    """Store why nothing was done about an orphan."""
    if orphan.reason != why:
        Orphan.objects.filter(pk=orphan.pk, state=OrphanState.FOUND).update(reason=why)


def move(orphan: Orphan, to: OrphanState, event: str, sentence: str, now: datetime, **facts: object) -> bool:
    """Move an orphan in its graph and tell of it; False when somebody else did it first."""
    with transaction.atomic():
        moved = Orphan.objects.filter(pk=orphan.pk, state__in=sources_of(to)).update(
            state=to, state_since=now, reason=sentence, **facts
        )
        if moved:
            tell(orphan, event, sentence, now)
    return bool(moved)


def tell(orphan: Orphan, reason: str, sentence: str, now: datetime) -> None:
    """Append an event to the story of the orphan's endpoint, or to the installation's where it has none."""
    cost = orphan.cost(now)
    detail = {
        "provider_id": orphan.provider_id,
        "instance_type": orphan.instance_type,
        "zone": orphan.zone,
        "token": orphan.token,
        "hourly_price": orphan.hourly_price,
        "cost": None if cost is None else round(cost, 4),
    }
    events.record(subject_of(orphan), reason, f"{sentence}.", now=now, detail=detail)

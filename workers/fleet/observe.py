"""Gathering what the planner sees: stored facts, the provider's word, the containers' /ping, the gateways' counts."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from controlplane.catalog.prices import hourly_price
from controlplane.core import clock
from controlplane.core.offerings import Mark, Offering, Pool
from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant, VariantPool
from controlplane.endpoints.options import Options
from controlplane.endpoints.selectors import options_of, standing_variants
from controlplane.fleet.models import CapacityMark, GatewayHeartbeat, Instance, LaunchAttempt
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS, InstanceStage
from controlplane.invocations.selectors import running_by_instance
from controlplane.metrics.selectors import alarm_states
from workers.fleet import view as seen
from workers.fleet.pace import MEMORY_SECONDS, SHORT_LIFE_SECONDS
from workers.providers import registry
from workers.providers.base import Health, InstanceStatus, Provider, ProviderInstance
from workers.providers.errors import ProviderError

PING_TIMEOUT_SECONDS = 2.0
"""The container contract: /ping answers within 2 s."""

PINGS_AT_ONCE = 16

GATEWAY_LIVE_SECONDS = 10.0
"""A gateway that was not heard of for so long (it reports every second) is dead and asked for nothing any more."""

NOTICE_SECONDS = 120.0
"""An announced end without a time is taken for one in two minutes, the spot market's notice."""

_SIGHTINGS = {
    InstanceStatus.PENDING: seen.Sighting.PENDING,
    InstanceStatus.RUNNING: seen.Sighting.RUNNING,
    InstanceStatus.EXITED: seen.Sighting.EXITED,
    InstanceStatus.STOPPING: seen.Sighting.STOPPING,
}
_PINGED = (InstanceStage.PENDING, InstanceStage.STARTING, InstanceStage.READY)


@dataclass(frozen=True)
class Soundings:
    """What the provider and the containers said, by provider id; `was_asked` when the provider answered at all."""

    was_asked: bool = False
    instances: Mapping[str, ProviderInstance] = field(default_factory=dict)
    pings: Mapping[str, Health] = field(default_factory=dict)


NOTHING_SOUNDED = Soundings()


def sound(endpoint_id: UUID) -> Soundings:
    """Ask the provider and the containers of one endpoint; a provider that does not answer is not an absence."""
    rows = Instance.objects.filter(endpoint_id=endpoint_id, stage__in=LIVE_STAGES)
    stages = dict(rows.values_list("provider_id", "stage"))
    if not stages:
        return NOTHING_SOUNDED
    provider = registry.get(settings.HEADRACE.provider)
    try:
        instances = provider.describe(list(stages))
    except ProviderError:
        return NOTHING_SOUNDED
    to_ping = [
        instance
        for provider_id, instance in instances.items()
        if instance.status is InstanceStatus.RUNNING and stages[provider_id] in _PINGED
    ]
    return Soundings(True, instances, _ping_all(provider, to_ping))


def _ping_all(provider: Provider, instances: list[ProviderInstance]) -> dict[str, Health]:
    if not instances:
        return {}
    with ThreadPoolExecutor(max_workers=min(len(instances), PINGS_AT_ONCE)) as pool:
        answers = pool.map(lambda instance: provider.ping(instance, PING_TIMEOUT_SECONDS), instances)
        return {instance.provider_id: health for instance, health in zip(instances, answers, strict=True)}


def view(endpoint_id: UUID, soundings: Soundings) -> seen.Endpoint:
    """The picture the planner is given: facts as stored now, with the soundings of this round."""
    endpoint = Endpoint.objects.select_related("deployment").get(pk=endpoint_id)
    provider = registry.get(settings.HEADRACE.provider)
    options = options_of(endpoint)
    variants = list(standing_variants(endpoint))
    pools = {pool.id: _pool(pool, options) for variant in variants for pool in variant.pools.all()}
    marks = _marks(provider.name, {pool.instance_type for pool in pools.values()})
    instances = list(Instance.objects.filter(endpoint=endpoint, stage__in=LIVE_STAGES).order_by("launched_at", "id"))
    attempts = list(LaunchAttempt.objects.filter(endpoint=endpoint, stage__in=OPEN_ATTEMPTS).order_by("called_at"))
    in_flight = _in_flight(instances)
    short_lives = _short_lives(endpoint)
    markets = [market for market in options.markets if market in provider.markets] or list(provider.markets[:1])
    deployment = getattr(endpoint, "deployment", None)
    return seen.Endpoint(
        id=str(endpoint.id),
        name=endpoint.name,
        phase=seen.Phase(endpoint.phase),
        consistency_window_seconds=provider.consistency_window_seconds,
        revision=endpoint.revision,
        deployment=_deployment(deployment) if deployment else None,
        hourly_ceiling=options.hourly_ceiling,
        variants=tuple(
            _variant(
                variant,
                home_after_seconds=None if deployment else options.home_after_seconds,
                short_lives=tuple(short_lives.get(variant.id, ())),
                offerings=tuple(
                    _offering(pools[pool.id], zone, market, marks)
                    for pool in variant.pools.all()
                    for market in markets
                    for zone in provider.zones
                ),
                instances=tuple(
                    _instance(row, pools[row.pool_id], soundings, in_flight[row.id])
                    for row in instances
                    if row.variant_id == variant.id
                ),
                attempts=tuple(_attempt(row, pools[row.pool_id]) for row in attempts if row.variant_id == variant.id),
            )
            for variant in variants
        ),
    )


def _short_lives(endpoint: Endpoint) -> dict[int, list[datetime]]:
    """When instances ended soon after they had come to serve, by variant id.

    Only those that came since the endpoint's last wish or change of phase: what a wish sends away was there before it.
    """
    lately = clock.now() - timedelta(seconds=MEMORY_SECONDS)
    ended = Instance.objects.filter(
        *(Q(endpoint=endpoint), Q(stage__in=(InstanceStage.TERMINATING, InstanceStage.TERMINATED))),
        *(Q(ready_at__gt=endpoint.modified_at), Q(stage_since__gt=lately)),
    )
    found: dict[int, list[datetime]] = {}
    for variant_id, ready_at, asked_at, stage_since in ended.values_list(
        "variant_id", "ready_at", "terminate_asked_at", "stage_since"
    ):
        end = asked_at or stage_since
        if end - ready_at < timedelta(seconds=SHORT_LIFE_SECONDS):
            found.setdefault(variant_id, []).append(end)
    return found


def _pool(row: VariantPool, options: Options) -> Pool:
    patience = options.patience_seconds.get(row.instance_type, 0.0)
    return Pool(row.id, row.priority, row.position, row.instance_type, patience)


def _offering(pool: Pool, zone: str, market: str, marks: "Marks") -> Offering:
    mark = marks.get((pool.instance_type, market, zone))
    return Offering(pool, zone, mark, market, hourly_price(pool.instance_type, market))


def _attempt(row: LaunchAttempt, pool: Pool) -> seen.Attempt:
    replaces = str(row.replaces) if row.replaces else ""
    return seen.Attempt(row.token, pool, row.zone, row.called_at, replaces, float(row.hourly_price or 0))


Marks = Mapping[tuple[str, str, str], Mark]
"""By instance type, market and zone."""


def _marks(provider: str, instance_types: set[str]) -> Marks:
    rows = CapacityMark.objects.filter(provider=provider, region=settings.HEADRACE.region, instance_type__in=instance_types)
    return {
        (row.instance_type, row.market, row.zone): Mark(
            row.kind, row.message, row.marked_at, row.until, row.seen_by, row.probe_expires_at
        )
        for row in rows
    }


def _deployment(row: Deployment) -> seen.Deployment:
    states = alarm_states(row.endpoint.account_id, row.alarms) if row.alarms else {}
    return seen.Deployment(
        to_revision=row.to_revision,
        stage=seen.DeploymentStage(row.stage),
        stage_since=row.stage_since,
        step=row.step,
        rolled_back_from=row.rolled_back_from,
        share=row.share,
        strategy=_strategy(row.strategy),
        deadline=row.deadline,
        alarms=tuple(name for name in row.alarms if name in states and states[name].state == "ALARM"),
        failure_reason=row.failure_reason,
    )


def _strategy(stored: Mapping[str, Any]) -> seen.Strategy:
    """The stored strategy; see `controlplane.endpoints.strategies.strategy_of`."""
    sizes = {
        name: seen.Size(seen.SizeUnit(stored[name]["unit"]), stored[name]["value"])
        for name in ("size", "rollback_size")
        if name in stored
    }
    waits = {name: float(stored[name]) for name in ("bake_seconds", "termination_wait_seconds") if name in stored}
    return seen.Strategy(seen.Rollout(stored["rollout"]), **sizes, **waits)


def _variant(
    row: EndpointVariant,
    *,
    home_after_seconds: float | None,
    short_lives: tuple[datetime, ...],
    offerings: tuple[Offering, ...],
    instances: tuple[seen.Instance, ...],
    attempts: tuple[seen.Attempt, ...],
) -> seen.Variant:
    return seen.Variant(
        id=row.id,
        name=row.name,
        desired_count=row.desired_count,
        offerings=offerings,
        instances=instances,
        attempts=attempts,
        provision_deadline=row.provision_deadline,
        launch_not_before=row.launch_not_before,
        refusals=row.refusals,
        start_failures=row.start_failures,
        start_failure_reason=row.start_failure_reason,
        startup_timeout_seconds=row.startup_timeout_seconds,
        download_timeout_seconds=row.download_timeout_seconds,
        desired_weight=row.desired_weight,
        current_weight=row.current_weight,
        revision=row.revision,
        full_count=row.full_count,
        short_since=row.short_since,
        home_after_seconds=home_after_seconds,
        move_not_before=row.move_not_before,
        short_lives=short_lives,
    )


def _instance(row: Instance, pool: Pool, soundings: Soundings, in_flight: int | None) -> seen.Instance:
    reported = soundings.instances.get(row.provider_id)
    health = soundings.pings.get(row.provider_id)
    sighting = _SIGHTINGS[reported.status] if reported else _absent(row, soundings)
    return seen.Instance(
        id=str(row.id),
        pool=pool,
        stage=seen.Stage(row.stage),
        stage_since=row.stage_since,
        launched_at=row.launched_at,
        sighting=sighting,
        address=reported.address if reported else row.address,
        detail=(health.detail if health else "") or (reported.detail if reported else ""),
        failure=reported.failure.value if reported and reported.failure else "",
        is_healthy=health.is_healthy if health else None,
        failed_pings=row.failed_pings,
        in_flight=in_flight,
        was_ready=row.ready_at is not None,
        terminate_asked_at=row.terminate_asked_at,
        replaces=str(row.replaces) if row.replaces else "",
        ends_at=row.ends_at,
        notice=reported.notice if reported else "",
        notice_ends_at=_announced_end(reported) if reported else None,
        hourly_price=float(row.hourly_price or 0),
    )


def _announced_end(reported: ProviderInstance) -> datetime | None:
    """When a provider that announced an end will make it true, as far as it said."""
    if not reported.notice:
        return None
    return reported.ends_at or clock.now() + timedelta(seconds=NOTICE_SECONDS)


def _absent(row: Instance, soundings: Soundings) -> seen.Sighting:
    """What it means that the provider did not list the instance: a listing may lag behind the launch."""
    window = timedelta(seconds=registry.get(row.provider).consistency_window_seconds)
    if not soundings.was_asked or clock.now() - row.launched_at < window:
        return seen.Sighting.UNKNOWN
    return seen.Sighting.GONE


def _in_flight(instances: Iterable[Instance]) -> dict[UUID, int | None]:
    """Calls under way by instance: the gateways' counts and the running asynchronous invocations.

    A draining instance that some live gateway has not listed yet has None: its new table has not arrived there.
    """
    rows = list(instances)
    since = clock.now() - timedelta(seconds=GATEWAY_LIVE_SECONDS)
    gateways = list(GatewayHeartbeat.objects.filter(seen_at__gte=since))
    running = running_by_instance([row.id for row in rows])
    return {row.id: _calls_at(row, gateways, running.get(row.id, 0)) for row in rows}


def _calls_at(row: Instance, gateways: list[GatewayHeartbeat], running: int) -> int | None:
    key = str(row.id)
    if row.stage != InstanceStage.DRAINING:
        return running + sum(gateway.in_flight.get(key, 0) for gateway in gateways)
    counts = [gateway.draining.get(key) for gateway in gateways]
    if any(count is None for count in counts):
        return None
    return running + sum(count for count in counts if count is not None)

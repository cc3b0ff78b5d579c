"""Gathering what the planner sees: stored facts, soundings of the provider and the containers, the gateways' counts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from controlplane.core import clock
from controlplane.core.offerings import Mark, Pool
from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant, VariantPool
from controlplane.endpoints.options import Options
from controlplane.endpoints.selectors import options_of, standing_variants
from controlplane.fleet.in_flight import GATEWAY_LIVE_SECONDS
from controlplane.fleet.models import GatewayHeartbeat, Instance, LaunchAttempt
from controlplane.fleet.selectors import MarkKey, last_refusals, markets_of, marks_of, offerings_of, quota_room
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS, InstanceStage
from controlplane.invocations.selectors import running_by_instance
from controlplane.metrics.selectors import alarm_states
from workers.fleet import view as seen
from workers.fleet.pace import MEMORY_SECONDS, SHORT_LIFE_SECONDS
from workers.fleet.soundings import Soundings
from workers.fleet.trial import topics_of
from workers.providers import registry
from workers.providers.base import InstanceStatus, Provider, ProviderInstance

NOTICE_SECONDS = 120.0
"""An announced end without a time is taken for one in two minutes, the spot market's notice."""

_SIGHTINGS = {
    InstanceStatus.PENDING: seen.Sighting.PENDING,
    InstanceStatus.RUNNING: seen.Sighting.RUNNING,
    InstanceStatus.EXITED: seen.Sighting.EXITED,
    InstanceStatus.STOPPING: seen.Sighting.STOPPING,
}


def view(endpoint_id: UUID, soundings: Soundings) -> seen.Endpoint:
    """The picture the planner is given: facts as stored now, with the soundings of this round."""
    endpoint = Endpoint.objects.select_related("deployment").get(pk=endpoint_id)
    options = options_of(endpoint)
    deployment = getattr(endpoint, "deployment", None)
    facts = _gather(endpoint, options, soundings)
    return seen.Endpoint(
        id=str(endpoint.id),
        name=endpoint.name,
        phase=seen.Phase(endpoint.phase),
        consistency_window_seconds=facts.provider.consistency_window_seconds,
        revision=endpoint.revision,
        deployment=_deployment(deployment) if deployment else None,
        hourly_ceiling=options.hourly_ceiling,
        topics=topics_of(endpoint, deployment.config_name if deployment else endpoint.config_name),
        variants=tuple(_variant(variant, facts, is_deploying=deployment is not None) for variant in facts.variants),
    )


@dataclass(frozen=True)
class _Facts:
    """What the picture of an endpoint is made of, read once for all of its variants."""

    provider: Provider
    options: Options
    soundings: Soundings
    variants: list[EndpointVariant]
    pools: Mapping[int, Pool]
    marks: Mapping[MarkKey, Mark]
    refusals: Mapping[MarkKey, datetime]
    room: Mapping[str, int]
    instances: list[Instance]
    attempts: list[LaunchAttempt]
    in_flight: Mapping[UUID, int | None]
    short_lives: Mapping[int, list[datetime]]


def _gather(endpoint: Endpoint, options: Options, soundings: Soundings) -> _Facts:
    variants = list(standing_variants(endpoint))
    pools = {pool.id: _pool(pool, options) for variant in variants for pool in variant.pools.all()}
    types = {pool.instance_type for pool in pools.values()}
    instances = list(Instance.objects.filter(endpoint=endpoint, stage__in=LIVE_STAGES).order_by("launched_at", "id"))
    return _Facts(
        provider=registry.get(settings.HEADRACE.provider),
        options=options,
        soundings=soundings,
        variants=variants,
        pools=pools,
        marks=marks_of(endpoint.account_id, types),
        refusals=_refusals(types, options),
        room=quota_room(endpoint.account_id),
        instances=instances,
        attempts=list(LaunchAttempt.objects.filter(endpoint=endpoint, stage__in=OPEN_ATTEMPTS).order_by("called_at")),
        in_flight=_in_flight(instances),
        short_lives=_short_lives(endpoint),
    )


def _refusals(types: set[str], options: Options) -> Mapping[MarkKey, datetime]:
    """When offerings were last refused; only who wants to come home needs to know how long they have been open."""
    if options.home_after_seconds is None:
        return {}
    return last_refusals(types, clock.now() - timedelta(seconds=options.home_after_seconds))


def _short_lives(endpoint: Endpoint) -> dict[int, list[datetime]]:
    """When instances ended soon after they had come to serve, by variant id.

    Only those that came since the endpoint's last wish or change of phase: what a wish sends away was there before it.
    Nor does it say anything of the model that an operator sent an instance away.
    """
    lately = clock.now() - timedelta(seconds=MEMORY_SECONDS)
    ended = Instance.objects.filter(
        *(Q(endpoint=endpoint), Q(stage__in=(InstanceStage.TERMINATING, InstanceStage.TERMINATED))),
        *(Q(ready_at__gt=endpoint.modified_at), Q(stage_since__gt=lately)),
        leave="",
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


def _attempt(row: LaunchAttempt, facts: _Facts) -> seen.Attempt:
    replaces = str(row.replaces) if row.replaces else ""
    price = float(row.hourly_price or 0)
    return seen.Attempt(row.token, facts.pools[row.pool_id], row.zone, row.called_at, replaces, price)


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


def _variant(row: EndpointVariant, facts: _Facts, *, is_deploying: bool) -> seen.Variant:
    """A variant with its offerings, instances and open attempts; nothing comes home while a deployment runs."""
    pools, provider = [facts.pools[pool.id] for pool in row.pools.all()], facts.provider
    markets = markets_of(facts.options.markets, provider.markets)
    return seen.Variant(
        id=row.id,
        name=row.name,
        desired_count=row.desired_count,
        offerings=tuple(
            replace(each, refused_at=facts.refusals.get((each.pool.instance_type, each.zone, each.market)))
            for each in offerings_of(pools, provider.zones, markets, facts.marks, facts.room)
        ),
        instances=tuple(_instance(each, facts) for each in facts.instances if each.variant_id == row.id),
        attempts=tuple(_attempt(each, facts) for each in facts.attempts if each.variant_id == row.id),
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
        home_after_seconds=None if is_deploying else facts.options.home_after_seconds,
        move_not_before=row.move_not_before,
        is_home_paused=row.endpoint.home_paused_at is not None,
        short_lives=tuple(facts.short_lives.get(row.id, ())),
    )


def _instance(row: Instance, facts: _Facts) -> seen.Instance:
    soundings = facts.soundings
    reported = soundings.instances.get(row.provider_id)
    health = soundings.pings.get(row.provider_id)
    sighting = _SIGHTINGS[reported.status] if reported else _absent(row, soundings)
    return seen.Instance(
        id=str(row.id),
        pool=facts.pools[row.pool_id],
        stage=seen.Stage(row.stage),
        stage_since=row.stage_since,
        launched_at=row.launched_at,
        sighting=sighting,
        address=reported.address if reported else row.address,
        detail=(health.detail if health else "") or (reported.detail if reported else ""),
        failure=reported.failure.value if reported and reported.failure else "",
        is_healthy=health.is_healthy if health else None,
        failed_pings=row.failed_pings,
        in_flight=facts.in_flight[row.id],
        was_ready=row.ready_at is not None,
        terminate_asked_at=row.terminate_asked_at,
        replaces=str(row.replaces) if row.replaces else "",
        ends_at=row.ends_at,
        notice=reported.notice if reported else "",
        notice_ends_at=_announced_end(reported) if reported else None,
        hourly_price=float(row.hourly_price or 0),
        leave=seen.Leave(row.leave),
        leave_asked_by=row.leave_asked_by,
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

"""Endpoints for `tests.perf.planning`: some that really serve, on the simulated provider, and rows of many more."""

from datetime import timedelta
from uuid import UUID, uuid4

from django.conf import settings

from controlplane.auth.models import Account, Installation
from controlplane.core import clock
from controlplane.endpoints.models import Endpoint, EndpointVariant, VariantPool
from controlplane.endpoints.states import Phase
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage
from tests.fakes.clock import FakeClock
from tests.workers.plane import FIRST, SECOND, Plane
from workers.loop.run import reconcile
from workers.providers import registry
from workers.providers.simulated.provider import SimulatedProvider

PATIENCE_ROUNDS = 20
KIND = "ml.m5.large"


def serving_endpoints(count: int) -> list[UUID]:
    """Create endpoints through the API's operations and work on them until they are in service."""
    provider = registry.get("simulated")
    if not isinstance(provider, SimulatedProvider):
        raise TypeError("the simulated provider is needed here")
    provider.world.set_knob("boot_seconds", 0.0)
    account, now = settings.HEADRACE.account_id, clock.now()
    Account.objects.get_or_create(account_id=account, defaults={"created_at": now})
    Installation.objects.get_or_create(id=1, defaults={"owner": "bench", "created_at": now})
    plane = Plane(provider, FakeClock(now))
    for number in range(count):
        plane.create(f"busy-{number}", types=(FIRST, SECOND))
    ids = list(Endpoint.objects.filter(name__startswith="busy-").values_list("id", flat=True))
    for _ in range(PATIENCE_ROUNDS):
        for endpoint_id in ids:
            reconcile(endpoint_id)
    serving = Endpoint.objects.filter(pk__in=ids, phase=Phase.IN_SERVICE).count()
    if serving != count:
        raise RuntimeError(f"only {serving} of {count} endpoints came into service")
    return ids


def add_idle(first: int, last: int) -> None:
    """Rows of endpoints that serve and are not due, each with its variant, pool and instance."""
    now = clock.now()
    like = Endpoint.objects.filter(name__startswith="busy-").first()
    assert like is not None
    facts = {field: getattr(like, field) for field in ("account_id", "is_async", "shows_pools", "config_name")}
    endpoints = [
        Endpoint(
            id=uuid4(),
            name=f"idle-{number}",
            phase=Phase.IN_SERVICE,
            created_at=now,
            modified_at=now,
            look_again_at=now + timedelta(days=1),
            **facts,
        )
        for number in range(first, last)
    ]
    Endpoint.objects.bulk_create(endpoints, batch_size=1000)
    variants = EndpointVariant.objects.bulk_create([_variant(each) for each in endpoints], batch_size=1000)
    pools = VariantPool.objects.bulk_create([_pool(each) for each in variants], batch_size=1000)
    Instance.objects.bulk_create([_instance(each, now) for each in pools], batch_size=1000)


def _variant(endpoint: Endpoint) -> EndpointVariant:
    return EndpointVariant(
        endpoint=endpoint,
        position=0,
        name="v",
        routing_strategy="RANDOM",
        desired_count=1,
        current_count=1,
        desired_weight=1.0,
        current_weight=1.0,
        provision_timeout_seconds=1800,
        startup_timeout_seconds=480,
        download_timeout_seconds=1200,
        copied_at=endpoint.created_at,
    )


def _pool(variant: EndpointVariant) -> VariantPool:
    return VariantPool(variant=variant, position=0, priority=1, instance_type=KIND, model_name="m", container={})


def _instance(pool: VariantPool, now) -> Instance:  # type: ignore[no-untyped-def]
    token = uuid4().hex
    return Instance(
        id=uuid4(),
        endpoint=pool.variant.endpoint,
        variant=pool.variant,
        pool=pool,
        provider="simulated",
        provider_id=token,
        token=token,
        instance_type=KIND,
        zone="a",
        launched_at=now,
        stage=InstanceStage.READY,
        stage_since=now,
        ready_at=now,
    )

"""A revision: a configuration as an endpoint runs it, with copies of the models, so that deleting either breaks nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from controlplane.catalog import selectors as catalog
from controlplane.catalog.models import EndpointConfig, Variant
from controlplane.core.ids import Arn
from controlplane.endpoints.models import Endpoint, EndpointVariant, VariantPool

DOWNLOAD_TIMEOUT_SECONDS = 1200


@dataclass(frozen=True)
class Kept:
    """What a variant of the next revision keeps of the one in service; None = nothing.

    Its `data_capture`, which may be none, is kept where `keeps_capture` says so.
    """

    count: int | None = None
    weight: float | None = None
    keeps_capture: bool = False
    data_capture: Mapping[str, Any] | None = None


def shows_pools(config: EndpointConfig) -> bool:
    """Whether DescribeEndpoint lists instance pools: when the configuration names any."""
    variants = [*config.request["ProductionVariants"], *config.request.get("ShadowProductionVariants", [])]
    return any("InstancePools" in variant for variant in variants)


def first_revision(endpoint: Endpoint, config: EndpointConfig, arn: Arn, now: datetime) -> None:
    """Copy the configuration's variants as the revision a new endpoint starts with; its search starts now."""
    for variant in config.variants.prefetch_related("pools", "routing_config"):
        row = _copied(endpoint, variant, config, now)
        row.desired_count = row.full_count = variant.initial_instance_count
        row.provision_deadline = now + timedelta(seconds=row.provision_timeout_seconds)
        row.save()
        _copy_pools(row, variant, arn)


def next_revision(
    endpoint: Endpoint, config: EndpointConfig, arn: Arn, kept: Mapping[str, Kept], now: datetime
) -> list[EndpointVariant]:
    """Copy the configuration's variants as a revision that is yet to be rolled out: no instances, no calls.

    `kept` has, by variant name, what is carried over from the revision in service in place of the configuration's.
    """
    rows = []
    for variant in config.variants.prefetch_related("pools", "routing_config"):
        row = _copied(endpoint, variant, config, now)
        keep = kept.get(variant.name, Kept())
        row.revision = endpoint.revisions
        row.full_count = variant.initial_instance_count if keep.count is None else keep.count
        if keep.weight is not None:
            row.desired_weight = row.current_weight = keep.weight
        if keep.keeps_capture:
            row.data_capture = keep.data_capture
        row.traffic_share = 0.0
        row.save()
        _copy_pools(row, variant, arn)
        rows.append(row)
    return rows


def _copied(endpoint: Endpoint, variant: Variant, config: EndpointConfig, now: datetime) -> EndpointVariant:
    return EndpointVariant(
        endpoint=endpoint,
        revision=endpoint.revision,
        config_name=config.name,
        copied_at=now,
        position=variant.position,
        name=variant.name,
        is_shadow=variant.is_shadow,
        data_capture=config.data_capture,
        routing_strategy=variant.routing_config.strategy,
        prefix_length=variant.routing_config.prefix_length,
        concurrency_threshold=variant.routing_config.concurrency_threshold,
        desired_count=0,
        desired_weight=variant.initial_weight,
        current_weight=variant.initial_weight,
        provision_timeout_seconds=variant.provision_timeout_seconds or settings.HEADRACE.provision_timeout_seconds,
        startup_timeout_seconds=variant.startup_timeout_seconds or settings.HEADRACE.startup_timeout_seconds,
        download_timeout_seconds=variant.download_timeout_seconds or DOWNLOAD_TIMEOUT_SECONDS,
    )


def _copy_pools(row: EndpointVariant, variant: Variant, arn: Arn) -> None:
    for pool in variant.pools.all():
        model = catalog.get_model(arn.account_id, arn.region, pool.model_name_override or variant.model_name)
        VariantPool.objects.create(
            variant=row,
            position=pool.position,
            priority=pool.priority,
            instance_type=pool.instance_type,
            model_name=model.name,
            container=model.container,
        )

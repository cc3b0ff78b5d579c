"""Writing the catalogue. Services write, in one transaction each, and take the time as an argument."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction

from controlplane.catalog import rules, selectors
from controlplane.catalog.models import EndpointConfig, InstancePool, Model, RoutingConfig, Tag, Variant
from controlplane.core.errors import ValidationException, already_exists
from controlplane.core.ids import Arn, new_uuid


def refuse_violations(violations: Iterable[str]) -> None:
    """Raise one error that names every violation, if there is any."""
    found = list(violations)
    if found:
        raise ValidationException(" ".join(found))


def create_model(*, arn: Arn, params: Mapping[str, Any], now: datetime) -> Model:
    """Store a model with its tags."""
    refuse_violations(rules.model_violations(params))
    tags = params.get("Tags", [])
    refuse_violations([*rules.tag_violations(tags), *rules.misplaced_option_violations(tags)])
    model = Model(id=new_uuid(), account_id=arn.account_id, name=arn.name, request=_without_tags(params), created_at=now)
    try:
        with transaction.atomic():
            model.save(force_insert=True)
            add_tags(model.id, tags)
    except IntegrityError as error:
        raise already_exists("model", str(arn)) from error
    return model


def create_endpoint_config(*, arn: Arn, params: Mapping[str, Any], now: datetime) -> EndpointConfig:
    """Store an endpoint configuration with its variants, pools, routing and tags."""
    encrypts = not settings.HEADRACE.is_store_embedded
    refuse_violations([*rules.config_violations(params), *rules.encryption_violations(params, store_encrypts=encrypts)])
    tags = params.get("Tags", [])
    refuse_violations([*rules.tag_violations(tags), *rules.misplaced_option_violations(tags)])
    production, shadows = params["ProductionVariants"], params.get("ShadowProductionVariants", [])
    for name in _model_names([*production, *shadows]):
        selectors.get_model(arn.account_id, arn.region, name)
    config = EndpointConfig(
        id=new_uuid(), account_id=arn.account_id, name=arn.name, request=_without_tags(params), created_at=now
    )
    try:
        with transaction.atomic():
            config.save(force_insert=True)
            for position, variant in enumerate([*production, *shadows]):
                _add_variant(config, position, variant, is_shadow=position >= len(production))
            add_tags(config.id, tags)
    except IntegrityError as error:
        raise already_exists("endpoint configuration", str(arn)) from error
    return config


def _add_variant(config: EndpointConfig, position: int, params: Mapping[str, Any], *, is_shadow: bool) -> None:
    variant = Variant.objects.create(
        config=config,
        position=position,
        name=params["VariantName"],
        is_shadow=is_shadow,
        model_name=params["ModelName"],
        initial_instance_count=params["InitialInstanceCount"],
        initial_weight=params.get("InitialVariantWeight", 1.0),
        provision_timeout_seconds=params.get("VariantInstanceProvisionTimeoutInSeconds"),
        startup_timeout_seconds=params.get("ContainerStartupHealthCheckTimeoutInSeconds"),
        download_timeout_seconds=params.get("ModelDataDownloadTimeoutInSeconds"),
    )
    routing = params.get("RoutingConfig", {})
    prefix_aware = routing.get("PrefixAwareRoutingConfig", {})
    RoutingConfig.objects.create(
        variant=variant,
        strategy=routing.get("RoutingStrategy", RoutingConfig.Strategy.RANDOM),
        prefix_length=prefix_aware.get("PrefixLength"),
        concurrency_threshold=prefix_aware.get("ConcurrencyThreshold"),
    )
    InstancePool.objects.bulk_create(
        InstancePool(
            variant=variant,
            position=place,
            priority=pool["Priority"],
            instance_type=pool["InstanceType"],
            model_name_override=pool.get("ModelNameOverride", ""),
        )
        for place, pool in enumerate(_pools(params))
    )


def _pools(variant: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The variant's pools; a single InstanceType is one pool of priority 1."""
    return variant.get("InstancePools") or [{"InstanceType": variant["InstanceType"], "Priority": 1}]


def _model_names(variants: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every model that the variants name, each once, in order."""
    names: dict[str, None] = {}
    for variant in variants:
        names[variant["ModelName"]] = None
        for pool in variant.get("InstancePools", []):
            if "ModelNameOverride" in pool:
                names[pool["ModelNameOverride"]] = None
    return list(names)


def _without_tags(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "Tags"}


def delete_resource(row: Model | EndpointConfig) -> bool:
    """Delete a model or a configuration with its tags; endpoints that use it keep their own copy.

    Of several deletions at once one succeeds; False for the others, which came too late.
    """
    with transaction.atomic():
        Tag.objects.filter(resource_id=row.id).delete()
        deleted, _ = type(row).objects.filter(pk=row.pk).delete()
    return deleted > 0


def add_tags(resource_id: UUID, tags: Iterable[Mapping[str, str]]) -> None:
    """Add tags to a resource, replacing the values of keys that it already has."""
    Tag.objects.bulk_create(
        [Tag(resource_id=resource_id, key=tag["Key"], value=tag["Value"]) for tag in tags],
        update_conflicts=True,
        unique_fields=["resource_id", "key"],
        update_fields=["value"],
    )

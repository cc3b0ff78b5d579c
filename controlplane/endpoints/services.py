"""Changing what is wanted of endpoints. Each service is one transaction; the workers are told after it commits."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F

from controlplane.catalog import selectors as catalog
from controlplane.catalog.models import EndpointConfig, Variant
from controlplane.catalog.rules import tag_violations
from controlplane.catalog.services import add_tags, refuse_violations
from controlplane.core import hints
from controlplane.core.errors import ValidationException, already_exists, in_progress, not_found
from controlplane.core.ids import Arn, new_uuid
from controlplane.endpoints.models import Endpoint, EndpointVariant, VariantPool
from controlplane.endpoints.states import Phase, sources_of
from controlplane.observability import events

DOWNLOAD_TIMEOUT_SECONDS = 1200


def create_endpoint(*, arn: Arn, config_name: str, tags: Sequence[Mapping[str, str]], now: datetime) -> Endpoint:
    """Store a new endpoint with a copy of its configuration and models; provisioning starts after the commit."""
    if Endpoint.objects.filter(account_id=arn.account_id, name__iexact=arn.name).exists():
        raise already_exists("endpoint", str(arn))
    config = catalog.get_endpoint_config(arn.account_id, arn.region, config_name)
    refuse_violations(tag_violations(tags))
    endpoint = _new_endpoint(arn, config, now)
    try:
        with transaction.atomic():
            endpoint.save(force_insert=True)
            for variant in config.variants.prefetch_related("pools"):
                _deploy_variant(endpoint, variant, arn, now)
            add_tags(endpoint.id, tags)
            sentence = f"Endpoint {arn.name} is to be created from configuration {config_name}."
            _tell(endpoint, "CreateRequested", sentence, now)
    except IntegrityError as error:
        raise already_exists("endpoint", str(arn)) from error
    return endpoint


def _new_endpoint(arn: Arn, config: EndpointConfig, now: datetime) -> Endpoint:
    return Endpoint(
        id=new_uuid(),
        account_id=arn.account_id,
        name=arn.name,
        config_name=config.name,
        is_async=config.async_inference is not None,
        async_inference=config.async_inference,
        shows_pools=any("InstancePools" in variant for variant in config.request["ProductionVariants"]),
        phase=Phase.CREATING,
        created_at=now,
        modified_at=now,
        look_again_at=now,
    )


def _deploy_variant(endpoint: Endpoint, variant: Variant, arn: Arn, now: datetime) -> None:
    """Copy a configured variant, its pools and the containers they run."""
    provision_timeout = variant.provision_timeout_seconds or settings.HEADRACE.provision_timeout_seconds
    deployed = EndpointVariant.objects.create(
        endpoint=endpoint,
        position=variant.position,
        name=variant.name,
        routing_strategy=variant.routing_config.strategy,
        desired_count=variant.initial_instance_count,
        desired_weight=variant.initial_weight,
        current_weight=variant.initial_weight,
        provision_timeout_seconds=provision_timeout,
        startup_timeout_seconds=variant.startup_timeout_seconds or settings.HEADRACE.startup_timeout_seconds,
        download_timeout_seconds=variant.download_timeout_seconds or DOWNLOAD_TIMEOUT_SECONDS,
        provision_deadline=now + timedelta(seconds=provision_timeout),
    )
    for pool in variant.pools.all():
        model = catalog.get_model(arn.account_id, arn.region, pool.model_name_override or variant.model_name)
        VariantPool.objects.create(
            variant=deployed,
            position=pool.position,
            priority=pool.priority,
            instance_type=pool.instance_type,
            model_name=model.name,
            container=model.container,
        )


def delete_endpoint(*, arn: Arn, now: datetime) -> None:
    """Want the endpoint gone, from whatever phase it is in but Deleting; the workers unwind it."""
    with transaction.atomic():
        endpoint = _locked(arn)
        if endpoint.phase == Phase.DELETING:
            raise in_progress("endpoint", str(arn))
        _wish(endpoint, Phase.DELETING, now, failure_reason="")
        _tell(endpoint, "DeleteRequested", f"Endpoint {arn.name} is to be deleted (it was {endpoint.phase}).", now)


def update_weights_and_capacities(*, arn: Arn, changes: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Want other counts or weights; all of the changes are taken or, on any error, none."""
    with transaction.atomic():
        endpoint = _locked(arn)
        if endpoint.phase not in sources_of(Phase.UPDATING):
            raise _not_updatable(endpoint, arn)
        variants = {variant.name: variant for variant in endpoint.variants.all()}
        _check_changes(endpoint, variants, changes)
        for change in changes:
            _change_variant(variants[change["VariantName"]], change, now)
        _wish(endpoint, Phase.UPDATING, now, failure_reason="")
        _tell(endpoint, "UpdateRequested", _describe(changes), now)


def _not_updatable(endpoint: Endpoint, arn: Arn) -> ValidationException:
    if endpoint.phase == Phase.FAILED:
        return ValidationException(f'Cannot update endpoint "{arn}" while it is in status Failed. Delete it instead.')
    return in_progress("endpoint", str(arn))


def _check_changes(
    endpoint: Endpoint, variants: Mapping[str, EndpointVariant], changes: Sequence[Mapping[str, Any]]
) -> None:
    names = [change["VariantName"] for change in changes]
    for name, count in Counter(names).items():
        if count > 1:
            raise ValidationException(f'The variant name "{name}" was non-unique within the request.')
    missing = [name for name in names if name not in variants]
    if missing:
        listed = ", ".join(f'"{name}"' for name in missing)
        raise ValidationException(
            f'The variant name(s) {listed} is/are not present within endpoint configuration "{endpoint.config_name}".'
        )
    if not endpoint.is_async:
        _refuse_zero(changes)


def _refuse_zero(changes: Iterable[Mapping[str, Any]]) -> None:
    for change in changes:
        if change.get("DesiredInstanceCount") == 0:
            raise ValidationException(
                f'DesiredInstanceCount 0 for variant "{change["VariantName"]}" is allowed for asynchronous endpoints only; '
                "a real-time endpoint needs at least 1."
            )


def _change_variant(variant: EndpointVariant, change: Mapping[str, Any], now: datetime) -> None:
    variant.rollback_count = variant.desired_count
    variant.desired_count = change.get("DesiredInstanceCount", variant.desired_count)
    variant.desired_weight = change.get("DesiredWeight", variant.desired_weight)
    variant.provision_deadline = now + timedelta(seconds=variant.provision_timeout_seconds)
    # A new wish starts with a clean slate: the search begins at the most wanted pool, at once.
    variant.refusals = variant.start_failures = 0
    variant.start_failure_reason = ""
    variant.launch_not_before = None
    variant.save()


def _describe(changes: Iterable[Mapping[str, Any]]) -> str:
    parts = []
    for change in changes:
        wishes = [
            f"{word} {change[member]}"
            for member, word in (("DesiredInstanceCount", "count"), ("DesiredWeight", "weight"))
            if member in change
        ]
        parts.append(f"variant {change['VariantName']}: {', '.join(wishes) or 'no change'}")
    return f"A change is wanted: {'; '.join(parts)}."


def _locked(arn: Arn) -> Endpoint:
    row = Endpoint.objects.select_for_update(no_key=True).filter(account_id=arn.account_id, name=arn.name).first()
    if row is None:
        raise not_found("endpoint", str(arn))
    return row


def _wish(endpoint: Endpoint, phase: Phase, now: datetime, **facts: object) -> None:
    """Move a locked endpoint to the phase that a new wish puts it in; whoever works on it plans again."""
    Endpoint.objects.filter(pk=endpoint.pk).update(
        phase=phase, modified_at=now, look_again_at=now, generation=F("generation") + 1, **facts
    )


def _tell(endpoint: Endpoint, reason: str, sentence: str, now: datetime) -> None:
    """Record the event and ring the workers' doorbell once the transaction is durable."""
    events.record(events.Subject(endpoint.account_id, "endpoint", endpoint.id, endpoint.name), reason, sentence, now=now)
    hints.ring_after_commit(hints.RECONCILE, endpoint.id)

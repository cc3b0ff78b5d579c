"""Changing what is wanted of endpoints. Each service is one transaction; the workers are told after it commits.

A new configuration for an endpoint that is in service is a deployment of its own: see `endpoints.deployments`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from controlplane.catalog import selectors as catalog
from controlplane.catalog.models import EndpointConfig
from controlplane.catalog.rules import tag_violations
from controlplane.catalog.services import add_tags, refuse_violations
from controlplane.core.errors import ValidationException, already_exists, in_progress
from controlplane.core.ids import Arn, new_uuid
from controlplane.endpoints import options, revisions, strategies, usage
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.selectors import variants_in_service
from controlplane.endpoints.states import Phase
from controlplane.endpoints.wishes import locked, locked_for_update, tell, wish
from controlplane.invocations.notifications import try_topics


def create_endpoint(
    *,
    arn: Arn,
    config_name: str,
    tags: Sequence[Mapping[str, str]],
    now: datetime,
    deployment_config: Mapping[str, Any] | None = None,
) -> Endpoint:
    """Store a new endpoint with a copy of its configuration and models; provisioning starts after the commit.

    A `deployment_config` is only remembered, for an update that retains it.
    """
    if Endpoint.objects.filter(account_id=arn.account_id, name__iexact=arn.name).exists():
        raise already_exists("endpoint", str(arn))
    config = catalog.get_endpoint_config(arn.account_id, arn.region, config_name)
    pairs, is_async = [(tag["Key"], tag["Value"]) for tag in tags], config.async_inference is not None
    refuse_violations([*tag_violations(tags), *options.violations(pairs, is_async=is_async)])
    refuse_violations(strategies.violations(deployment_config or {}))
    endpoint = _new_endpoint(arn, config, now)
    endpoint.deployment_config = deployment_config
    try:
        with transaction.atomic():
            usage.check(arn.account_id, usage.demands_of(config.variants.prefetch_related("pools")))
            endpoint.save(force_insert=True)
            revisions.first_revision(endpoint, config, arn, now)
            add_tags(endpoint.id, tags)
            try_topics(arn.account_id, endpoint.id, endpoint.name, endpoint.async_inference, now)
            sentence = f"Endpoint {arn.name} is to be created from configuration {config_name}."
            tell(endpoint, "CreateRequested", sentence, now)
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
        shows_pools=revisions.shows_pools(config),
        phase=Phase.CREATING,
        created_at=now,
        modified_at=now,
        look_again_at=now,
    )


def delete_endpoint(*, arn: Arn, now: datetime) -> None:
    """Want the endpoint gone, from whatever phase it is in but Deleting; the workers unwind it."""
    with transaction.atomic():
        endpoint = locked(arn)
        if endpoint.phase == Phase.DELETING:
            raise in_progress("endpoint", str(arn))
        wish(endpoint, Phase.DELETING, now, failure_reason="")
        tell(endpoint, "DeleteRequested", f"Endpoint {arn.name} is to be deleted (it was {endpoint.phase}).", now)


def update_weights_and_capacities(*, arn: Arn, changes: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Want other counts or weights; all of the changes are taken or, on any error, none."""
    with transaction.atomic():
        endpoint = locked_for_update(arn)
        variants = {variant.name: variant for variant in variants_in_service(endpoint)}
        _check_changes(endpoint, variants, changes)
        counts = {each["VariantName"]: each.get("DesiredInstanceCount") for each in changes}
        wished = ((variants[name], count) for name, count in counts.items() if count is not None)
        usage.check_increase(arn.account_id, wished)
        for change in changes:
            change_variant(variants[change["VariantName"]], change, now)
        try_topics(arn.account_id, endpoint.id, endpoint.name, endpoint.async_inference, now)
        wish(endpoint, Phase.UPDATING, now, failure_reason="")
        tell(endpoint, "UpdateRequested", _describe(changes), now)


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


def change_variant(variant: EndpointVariant, change: Mapping[str, Any], now: datetime) -> None:
    """Want another count or weight of a variant, as in DesiredWeightsAndCapacities, and start its search."""
    variant.rollback_count = variant.desired_count
    variant.desired_count = change.get("DesiredInstanceCount", variant.desired_count)
    variant.full_count = variant.desired_count
    variant.desired_weight = change.get("DesiredWeight", variant.desired_weight)
    variant.provision_deadline = now + timedelta(seconds=variant.provision_timeout_seconds)
    # A new wish starts with a clean slate: the search begins at the most wanted pool, at once.
    variant.refusals = variant.start_failures = 0
    variant.start_failure_reason = ""
    variant.launch_not_before = variant.short_since = None
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

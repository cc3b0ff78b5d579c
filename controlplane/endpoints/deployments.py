"""UpdateEndpoint: another configuration is wanted, and a deployment is to get there.

The new configuration is copied as the endpoint's next revision, with no instances and no calls yet; the workers roll it
out by the deployment's strategy (see `workers.fleet.rollout`) and leave one of the two revisions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from controlplane.catalog import selectors as catalog
from controlplane.catalog.models import EndpointConfig
from controlplane.catalog.quotas import Demand
from controlplane.catalog.services import refuse_violations
from controlplane.core.errors import ValidationException
from controlplane.core.ids import Arn
from controlplane.endpoints import revisions, strategies, usage
from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant
from controlplane.endpoints.selectors import options_of, standing_variants, variants_in_service
from controlplane.endpoints.states import Phase
from controlplane.endpoints.wishes import locked_for_update, tell, wish
from controlplane.invocations.notifications import try_topics
from controlplane.metrics.selectors import alarm_states

COUNT, WEIGHT, CAPTURE = "DesiredInstanceCount", "DesiredWeight", "DataCaptureConfig"


@dataclass(frozen=True)
class Update:
    """An UpdateEndpoint request. `retained` are the variant properties that the new revision takes from the present."""

    config_name: str
    retained: frozenset[str] = frozenset()
    deployment_config: Mapping[str, Any] | None = None
    retains_deployment_config: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Update":
        """The request in the API's members; raises ValidationException for what cannot go together."""
        excluded = {each["VariantPropertyType"] for each in params.get("ExcludeRetainedVariantProperties", [])}
        retains = params.get("RetainAllVariantProperties", False)
        retains_config = params.get("RetainDeploymentConfig", False)
        if excluded and not retains:
            raise ValidationException("ExcludeRetainedVariantProperties needs RetainAllVariantProperties to be true.")
        if retains_config and "DeploymentConfig" in params:
            raise ValidationException("Specify at most one of DeploymentConfig and RetainDeploymentConfig.")
        retained = frozenset({COUNT, WEIGHT, CAPTURE}) - excluded if retains else frozenset()
        return cls(params["EndpointConfigName"], retained, params.get("DeploymentConfig"), retains_config)


def update_endpoint(*, arn: Arn, update: Update, now: datetime) -> None:
    """Want the endpoint to serve another configuration; all of it is stored or, on any error, nothing."""
    with transaction.atomic():
        endpoint = locked_for_update(arn, is_deployment=True)
        config = catalog.get_endpoint_config(arn.account_id, arn.region, update.config_name)
        _refuse_other_kind(endpoint, config)
        chosen = endpoint.deployment_config if update.retains_deployment_config else update.deployment_config
        is_surgeless = options_of(endpoint).is_surgeless
        refuse_violations(strategies.violations(chosen or {}, is_surgeless=is_surgeless))
        alarms = strategies.alarms_of(chosen or {})
        _refuse_unknown_alarms(arn.account_id, alarms)
        _hold_old_fleet(endpoint)
        endpoint.revisions += 1
        variants = revisions.next_revision(endpoint, config, arn, _kept(endpoint, update.retained), now)
        # The new fleet comes on top of the old one; its own rows are not counted twice.
        usage.check(arn.account_id, _demands(variants), {row.id: 0 for row in variants})
        strategy = strategies.strategy_of(chosen or {}, is_surgeless=is_surgeless)
        timeout = strategies.execution_timeout_of(chosen or {})
        Deployment.objects.create(
            endpoint=endpoint,
            to_revision=endpoint.revisions,
            config_name=config.name,
            async_inference=config.async_inference,
            shows_pools=revisions.shows_pools(config),
            strategy=strategy,
            alarms=alarms,
            stage_since=now,
            started_at=now,
            deadline=now + timedelta(seconds=timeout) if timeout else None,
        )
        try_topics(arn.account_id, endpoint.id, endpoint.name, config.async_inference, now)
        remembered = update.deployment_config or endpoint.deployment_config
        wish(
            endpoint,
            Phase.UPDATING,
            now,
            failure_reason="",
            revisions=endpoint.revisions,
            deployment_config=remembered,
        )
        tell(endpoint, "UpdateRequested", _sentence(endpoint, config, strategy), now)


def _refuse_other_kind(endpoint: Endpoint, config: EndpointConfig) -> None:
    """Callers of the one kind cannot call the other, so an endpoint stays what it is."""
    if endpoint.is_async != (config.async_inference is not None):
        kinds = ("an asynchronous", "a real-time") if endpoint.is_async else ("a real-time", "an asynchronous")
        raise ValidationException(
            f'Endpoint configuration "{config.name}" is for {kinds[1]} endpoint, and endpoint "{endpoint.name}" is '
            f"{kinds[0]} one. Create another endpoint for it."
        )


def _refuse_unknown_alarms(account_id: str, names: Sequence[str]) -> None:
    known = alarm_states(account_id, names) if names else {}
    missing = [name for name in names if name not in known]
    if missing:
        listed = ", ".join(f'"{name}"' for name in missing)
        raise ValidationException(f"AutoRollbackConfiguration names alarms that do not exist: {listed}.")


def _hold_old_fleet(endpoint: Endpoint) -> None:
    """What serves now is the fleet to return to: each variant's wanted count is its full one."""
    for variant in standing_variants(endpoint):
        EndpointVariant.objects.filter(pk=variant.pk).update(full_count=variant.desired_count, provision_deadline=None)


def _kept(endpoint: Endpoint, retained: frozenset[str]) -> dict[str, revisions.Kept]:
    """By variant name, what the new revision takes over."""
    return {
        variant.name: revisions.Kept(
            variant.desired_count if COUNT in retained else None,
            variant.desired_weight if WEIGHT in retained else None,
            CAPTURE in retained,
            variant.data_capture,
        )
        for variant in variants_in_service(endpoint)
    }


def _demands(variants: Sequence[EndpointVariant]) -> list[Demand]:
    """The new fleet, which is to stand beside the old one."""
    return [Demand(tuple(pool.instance_type for pool in each.pools.all()), each.full_count) for each in variants]


def _sentence(endpoint: Endpoint, config: EndpointConfig, strategy: Mapping[str, Any]) -> str:
    how = str(strategy["rollout"]).replace("_", " ").lower()
    return f"Endpoint {endpoint.name} is to move from configuration {endpoint.config_name} to {config.name}, {how}."

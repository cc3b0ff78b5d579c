"""The public picture of an endpoint: a pure function of its stored facts."""

from datetime import datetime
from typing import Any

from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant
from controlplane.endpoints.selectors import variants_in_service
from controlplane.endpoints.states import DeploymentStage, Phase

WITHOUT_VARIANTS = (Phase.CREATING, Phase.FAILED)
"""In these phases the service this mirrors leaves ProductionVariants out."""


def summary(row: Endpoint, arn: str) -> dict[str, Any]:
    """The endpoint as ListEndpoints shows it."""
    return {
        "EndpointName": row.name,
        "EndpointArn": arn,
        "CreationTime": row.created_at,
        "LastModifiedTime": row.modified_at,
        "EndpointStatus": row.phase,
    }


def endpoint(row: Endpoint, arn: str) -> dict[str, Any]:
    """The endpoint as DescribeEndpoint shows it."""
    picture = {**summary(row, arn), "EndpointConfigName": row.config_name}
    if row.failure_reason:
        picture["FailureReason"] = row.failure_reason
    if row.async_inference is not None:
        picture["AsyncInferenceConfig"] = row.async_inference
    if row.deployment_config is not None:
        picture["LastDeploymentConfig"] = row.deployment_config
    deployment = Deployment.objects.filter(endpoint=row).first()
    pending = _pending(row, deployment)
    if pending is not None:
        picture["PendingDeploymentSummary"] = pending
    if row.phase not in WITHOUT_VARIANTS:
        variants = list(variants_in_service(row))
        picture |= _by_kind([(variant, _in_service(row, variant, deployment)) for variant in variants])
        picture |= _capture(variants[0].data_capture) if variants else {}
    return picture


def _by_kind(pictures: list[tuple[EndpointVariant, dict[str, Any]]]) -> dict[str, Any]:
    """The variants' pictures under the members that they belong to; without shadows there is no member for them."""
    shadows = [picture for variant, picture in pictures if variant.is_shadow]
    production = [picture for variant, picture in pictures if not variant.is_shadow]
    return {"ProductionVariants": production, **({"ShadowProductionVariants": shadows} if shadows else {})}


def _capture(config: dict[str, Any] | None) -> dict[str, Any]:
    """DataCaptureConfig as DescribeEndpoint shows it: all of its members are required, the key's id too."""
    if config is None:
        return {}
    is_on = config.get("EnableCapture", True)
    shown = {
        "EnableCapture": is_on,
        "CaptureStatus": "Started" if is_on else "Stopped",
        "CurrentSamplingPercentage": config["InitialSamplingPercentage"],
        "DestinationS3Uri": config["DestinationS3Uri"],
        "KmsKeyId": config.get("KmsKeyId", ""),
    }
    return {"DataCaptureConfig": shown}


def _pending(row: Endpoint, deployment: Deployment | None) -> dict[str, Any] | None:
    """The creation or the deployment that is under way, with why it is not over yet."""
    if deployment is not None:
        status = _status(
            _NEW_FLEET[DeploymentStage(deployment.stage)], f"{deployment.why} {row.why}", deployment.stage_since
        )
        variants = row.variants.filter(revision=deployment.to_revision).prefetch_related("pools")
        shows_pools, config_name, started_at = deployment.shows_pools, deployment.config_name, deployment.started_at
    elif row.phase == Phase.CREATING:
        status = _status("Creating", row.why, row.created_at)
        variants, shows_pools = variants_in_service(row), row.shows_pools
        config_name, started_at = row.config_name, row.created_at
    else:
        return None
    return {
        "EndpointConfigName": config_name,
        **_by_kind([(variant, _pending_variant(variant, status, shows_pools=shows_pools)) for variant in variants]),
        "StartTime": started_at,
    }


def _pending_variant(variant: EndpointVariant, status: dict[str, Any], *, shows_pools: bool) -> dict[str, Any]:
    where = {"InstancePools": _pools(variant)} if shows_pools else {"InstanceType": variant.pools.all()[0].instance_type}
    return {**_variant(variant), **where, "DesiredInstanceCount": variant.full_count, "VariantStatus": [status]}


_NEW_FLEET = {
    DeploymentStage.PENDING: "Creating",
    DeploymentStage.RETIRING: "Creating",
    DeploymentStage.PROVISIONING: "Creating",
    DeploymentStage.ACTIVATING: "ActivatingTraffic",
    DeploymentStage.BAKING: "Baking",
    DeploymentStage.WAITING: "Baking",
    DeploymentStage.CLEANING: "Updating",
    DeploymentStage.ROLLING_BACK: "Deleting",
}
"""The API's VariantStatus of the new revision, by stage."""

_OLD_FLEET_GOES = (DeploymentStage.RETIRING, DeploymentStage.CLEANING)


def _status(status: str, message: str, since: datetime) -> dict[str, Any]:
    return {"Status": status, "StatusMessage": message.strip()[:1024], "StartTime": since}


def _in_service(row: Endpoint, variant: EndpointVariant, deployment: Deployment | None) -> dict[str, Any]:
    picture = _variant(variant)
    if deployment is not None:
        status = "Deleting" if deployment.stage in _OLD_FLEET_GOES else "Updating"
        picture["VariantStatus"] = [_status(status, deployment.why, deployment.stage_since)]
    if row.shows_pools:
        picture["InstancePools"] = _pools(variant)
    return picture


def _pools(variant: EndpointVariant) -> list[dict[str, Any]]:
    return [
        {"InstanceType": pool.instance_type, "CurrentInstanceCount": pool.current_count} for pool in variant.pools.all()
    ]


def _variant(variant: EndpointVariant) -> dict[str, Any]:
    images = {pool.container["Image"]: None for pool in variant.pools.all()}
    return {
        "VariantName": variant.name,
        "DeployedImages": [
            {"SpecifiedImage": image, "ResolvedImage": image, "ResolutionTime": variant.copied_at} for image in images
        ],
        "CurrentWeight": variant.current_weight,
        "DesiredWeight": variant.desired_weight,
        "CurrentInstanceCount": variant.current_count,
        "DesiredInstanceCount": variant.desired_count,
        "RoutingConfig": _routing(variant),
    }


def _routing(variant: EndpointVariant) -> dict[str, Any]:
    picture: dict[str, Any] = {"RoutingStrategy": variant.routing_strategy}
    if variant.prefix_length is not None:
        picture["PrefixAwareRoutingConfig"] = {
            "PrefixLength": variant.prefix_length,
            "ConcurrencyThreshold": variant.concurrency_threshold,
        }
    return picture

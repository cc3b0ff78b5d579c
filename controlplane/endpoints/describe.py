"""The public picture of an endpoint: a pure function of its stored facts."""

from typing import Any

from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.states import Phase

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
    variants = [_variant(row, variant) for variant in row.variants.prefetch_related("pools")]
    if row.phase == Phase.CREATING:
        picture["PendingDeploymentSummary"] = {
            "EndpointConfigName": row.config_name,
            "ProductionVariants": [{**each, "VariantStatus": [_creating(row)]} for each in variants],
            "StartTime": row.created_at,
        }
    if row.phase not in WITHOUT_VARIANTS:
        picture["ProductionVariants"] = variants
    return picture


def _creating(row: Endpoint) -> dict[str, Any]:
    """Why the endpoint is not there yet: the last plan's sentence."""
    return {"Status": "Creating", "StatusMessage": row.why[:1024], "StartTime": row.created_at}


def _variant(row: Endpoint, variant: EndpointVariant) -> dict[str, Any]:
    pools = list(variant.pools.all())
    images = {pool.container["Image"]: None for pool in pools}
    picture: dict[str, Any] = {
        "VariantName": variant.name,
        "DeployedImages": [
            {"SpecifiedImage": image, "ResolvedImage": image, "ResolutionTime": row.created_at} for image in images
        ],
        "CurrentWeight": variant.current_weight,
        "DesiredWeight": variant.desired_weight,
        "CurrentInstanceCount": variant.current_count,
        "DesiredInstanceCount": variant.desired_count,
        "RoutingConfig": {"RoutingStrategy": variant.routing_strategy},
    }
    if row.shows_pools:
        picture["InstancePools"] = [
            {"InstanceType": pool.instance_type, "CurrentInstanceCount": pool.current_count} for pool in pools
        ]
    return picture

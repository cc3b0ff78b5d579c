"""One launch as the parameters of RunInstances."""

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from workers.providers.base import LaunchRequest
from workers.providers.ec2.settings import Settings
from workers.providers.ec2.user_data import Machine, render
from workers.providers.errors import ErrorKind, ProviderError

SPOT, ON_DEMAND = "spot", "on-demand"
TAG_OWNER, TAG_TOKEN, TAG_TYPE = "headrace:owner", "headrace:token", "headrace:instance-type"
LABEL_PREFIX = "headrace:"


def parameters(request: LaunchRequest, settings: Settings) -> dict[str, Any]:
    """What RunInstances is called with; the same request gives the same parameters. Raises MISCONFIGURED."""
    ec2_type = settings.ec2_type(request.instance_type)
    made: dict[str, Any] = {
        "ClientToken": client_token(request.token, request.zone),
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": _ami(request, settings),
        "InstanceType": ec2_type,
        "UserData": render(request, ec2_type, Machine(port=settings.port)),
        # One hop: the machine has its role, the container on docker's bridge does not.
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags(request)} for kind in ("instance", "volume")],
        # A machine whose container has ended stops and so keeps its tags and its last words until its end is asked for.
        # One of a one-time spot request cannot be stopped.
        "InstanceInitiatedShutdownBehavior": "terminate" if request.market == SPOT else "stop",
        **_network(request, settings),
        **_market(request, settings),
    }
    if settings.instance_profile:
        key = "Arn" if settings.instance_profile.startswith("arn:") else "Name"
        made["IamInstanceProfile"] = {key: settings.instance_profile}
    if settings.root_gib:
        volume = {"VolumeSize": settings.root_gib, "VolumeType": "gp3", "DeleteOnTermination": True}
        made["BlockDeviceMappings"] = [{"DeviceName": settings.root_device, "Ebs": volume}]
    return made


def client_token(token: str, zone: str) -> str:
    """EC2's idempotency token: 64 ASCII characters, one for each of our tokens and zone.

    The zone is part of it since EC2 does not count another zone as another parameter and would answer with the instance
    of the first.
    """
    return hashlib.sha256(f"{token}\0{zone}".encode("utf-8", "surrogatepass")).hexdigest()


def tags(request: LaunchRequest) -> list[dict[str, str]]:
    """The tags that an instance is born with, sorted."""
    labels = {f"{LABEL_PREFIX}{name}": value for name, value in request.labels.items()}
    ours = {TAG_OWNER: request.owner, TAG_TOKEN: request.token, TAG_TYPE: request.instance_type}
    named = {**labels, **ours, "Name": f"headrace-{request.labels.get('endpoint', request.token[:8])}"}
    return [{"Key": key, "Value": to_tag(value)} for key, value in sorted(named.items())]


def to_tag(value: str) -> str:
    """A value of tag-safe characters; what is not safe becomes `=XX`, so no value holds a filter's wildcards."""
    return quote(value, safe="", errors="surrogatepass").replace("~", "%7E").replace("%", "=")


def from_tag(value: str) -> str:
    """What `to_tag` was given."""
    return unquote(value.replace("=", "%"), errors="surrogatepass")


def _ami(request: LaunchRequest, settings: Settings) -> str:
    ami = settings.ami(request.instance_type)
    if not ami:
        raise ProviderError(ErrorKind.MISCONFIGURED, f"HEADRACE_EC2_AMI names no AMI for {request.instance_type}.")
    return ami


def _network(request: LaunchRequest, settings: Settings) -> Mapping[str, Any]:
    subnet = settings.subnets.get(request.zone)
    if not subnet:
        raise ProviderError(ErrorKind.MISCONFIGURED, f"HEADRACE_EC2_SUBNETS names no subnet in {request.zone!r}.")
    groups = list(settings.security_groups)
    if not settings.has_public_address:
        return {"SubnetId": subnet, **({"SecurityGroupIds": groups} if groups else {})}
    interface = {"DeviceIndex": 0, "SubnetId": subnet, "AssociatePublicIpAddress": True, "DeleteOnTermination": True}
    return {"NetworkInterfaces": [{**interface, **({"Groups": groups} if groups else {})}]}


def _market(request: LaunchRequest, settings: Settings) -> Mapping[str, Any]:
    """Spot, or on-demand by the operator's reservation if one is set."""
    if request.market == SPOT:
        spot = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": spot}}
    if request.market != ON_DEMAND:
        raise ProviderError(ErrorKind.MISCONFIGURED, f"EC2 has no market {request.market!r}.")
    wanted = settings.reservation(request.instance_type, request.zone)
    if not wanted:
        return {}
    if wanted in ("open", "none"):
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": wanted}}
    target = {"CapacityReservationId": wanted.removeprefix("block:")}
    made: dict[str, Any] = {"CapacityReservationSpecification": {"CapacityReservationTarget": target}}
    if wanted.startswith("block:"):
        made["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    return made

"""The calls of the API, on the world. All take parameters and give answers by boto3's names, or raise Refused or Lost.

Checks come before deeds, as EC2 makes them: a known token is answered before capacity is looked at, and a refused launch
leaves its token unused.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from fnmatch import translate
from typing import Any

from controlplane.core import clock
from workers.providers.ec2.fake.faults import Lost, Refused
from workers.providers.ec2.fake.world import Call, Instance, World, new_id

Answer = Mapping[str, Any]
Operation = Callable[[World, Mapping[str, Any]], Answer]

USER_DATA_LIMIT_BYTES = 16 * 1024
_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


def call(world: World, action: str, parameters: Mapping[str, Any]) -> Answer:
    """Make one call and write it down; raises Refused or Lost."""
    kind, token = str(parameters.get("InstanceType", "")), str(parameters.get("ClientToken", ""))
    result = "ok"
    with world.locked():
        try:
            operation = OPERATIONS.get(action)
            if operation is None:
                raise Refused("InvalidAction", f"The fake does not know {action}.")
            return operation(world, parameters)
        except Refused as error:
            result = error.code
            raise
        except Lost:
            result = "lost"
            raise
        finally:
            world.write_down(Call(clock.now(), action, kind, token, result))


def run_instances(world: World, asked: Mapping[str, Any]) -> Answer:
    """Launch one instance, or give the one of this token."""
    kind = str(asked.get("InstanceType", ""))
    if world.faults.take("throttle", kind):
        raise Refused("RequestLimitExceeded", "Request limit exceeded.", 503)
    if world.faults.take("lose_requests", kind):
        raise Lost
    if world.faults.take("internal_errors", kind):
        raise Refused("InternalError", "An internal error has occurred.", 500)
    instance = _of_token(world, asked) or _launch(world, asked)
    if world.faults.take("lose_replies", kind):
        raise Lost
    if world.faults.take("empty_replies", kind):
        return {"Instances": []}
    return {"ReservationId": new_id("r"), "Instances": [_show(instance)]}


def describe_instances(world: World, asked: Mapping[str, Any]) -> Answer:
    """By ids, all of which must be known, or by filters."""
    _throttle(world, "throttle_listings")
    shown = [_show(instance) for instance in _visible(world, asked.get("InstanceIds", []))]
    found, token = _page(world, [each for each in shown if _passes(each, asked.get("Filters", []))], asked)
    return {"Reservations": [{"ReservationId": new_id("r"), "Instances": [each]} for each in found], "NextToken": token}


def terminate_instances(world: World, asked: Mapping[str, Any]) -> Answer:
    """Begin the end of each; an instance that is too new is not known."""
    changes = []
    for instance in _visible(world, asked.get("InstanceIds", []), is_exact=True):
        before = instance.state(clock.now())
        if not world.faults.take("zombie_terminates", instance.instance_type):
            message = "Client.UserInitiatedShutdown: User initiated shutdown"
            world.begin_end(instance, "Client.UserInitiatedShutdown", message)
        states = {"PreviousState": _state(before), "CurrentState": _state(instance.state(clock.now()))}
        changes.append({"InstanceId": instance.instance_id, **states})
    return {"TerminatingInstances": changes}


def describe_instance_status(world: World, asked: Mapping[str, Any]) -> Answer:
    """Running instances, with the events that are scheduled for them."""
    _throttle(world, "throttle_notices")
    now = clock.now()
    wanted = {value for each in asked.get("Filters", []) if each["Name"] == "event.code" for value in each["Values"]}
    statuses = [
        {"InstanceId": each.instance_id, "InstanceState": _state("running"), "Events": each.events}
        for each in _visible(world, asked.get("InstanceIds", []))
        if each.state(now) == "running" and (not wanted or any(event["Code"] in wanted for event in each.events))
    ]
    found, token = _page(world, statuses, asked)
    return {"InstanceStatuses": found, "NextToken": token}


def describe_spot_instance_requests(world: World, asked: Mapping[str, Any]) -> Answer:
    """The requests behind spot instances."""
    _throttle(world, "throttle_notices")
    wanted = {value for each in asked.get("Filters", []) if each["Name"] == "status-code" for value in each["Values"]}
    requests = [
        {
            "SpotInstanceRequestId": each.spot_request_id,
            "InstanceId": each.instance_id,
            "State": "active",
            "Status": {"Code": each.spot_code, "UpdateTime": each.spot_changed_at or each.launched_at},
        }
        for each in world.instances.values()
        if each.spot_request_id and (not wanted or each.spot_code in wanted)
    ]
    found, token = _page(world, requests, asked)
    return {"SpotInstanceRequests": found, "NextToken": token}


def get_console_output(world: World, asked: Mapping[str, Any]) -> Answer:
    """What the machine wrote to its console."""
    instance = _visible(world, [asked.get("InstanceId", "")], is_exact=True)[0]
    output = base64.b64encode(instance.console.encode()).decode()
    return {"InstanceId": instance.instance_id, "Timestamp": clock.now(), "Output": output}


OPERATIONS: Mapping[str, Operation] = {
    "RunInstances": run_instances,
    "DescribeInstances": describe_instances,
    "TerminateInstances": terminate_instances,
    "DescribeInstanceStatus": describe_instance_status,
    "DescribeSpotInstanceRequests": describe_spot_instance_requests,
    "GetConsoleOutput": get_console_output,
}


def _of_token(world: World, asked: Mapping[str, Any]) -> Instance | None:
    """The instance that this token launched; raises Refused when it is gone or was launched with other parameters."""
    known = world.tokens.get(str(asked.get("ClientToken", "")))
    if known is None:
        return None
    instance = world.instances.get(known)
    is_spent = instance is not None and instance.state(clock.now()) == "terminated"
    if instance is None or (is_spent and not world.faults.read("answer_spent_tokens")):
        raise Refused("IdempotentInstanceTerminated", "The instance of this client token was terminated.")
    if instance.parameters != asked:
        raise Refused("IdempotentParameterMismatch", "This client token was used with other parameters.")
    return instance


def _launch(world: World, asked: Mapping[str, Any]) -> Instance:
    kind, ami = str(asked.get("InstanceType", "")), str(asked.get("ImageId", ""))
    world.faults.check(kind, ami)
    if len(base64.b64decode(asked.get("UserData", ""))) > USER_DATA_LIMIT_BYTES:
        raise Refused("InvalidParameterValue", f"User data is limited to {USER_DATA_LIMIT_BYTES} bytes.")
    interfaces = asked.get("NetworkInterfaces", [{}])
    subnet = str(asked.get("SubnetId") or interfaces[0].get("SubnetId", ""))
    zone = world.subnets.get(subnet)
    if zone is None:
        raise Refused("InvalidSubnetID.NotFound", f"The subnet {subnet!r} does not exist.")
    is_spot = asked.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
    world.take_slot(kind, zone, "spot" if is_spot else "on-demand")
    now, number = clock.now(), len(world.tokens) + 1
    instance = Instance(
        instance_id=new_id("i"),
        parameters=asked,
        zone=zone,
        ip=f"127.{64 + (number >> 16) % 64}.{(number >> 8) & 255}.{number & 255}",
        launched_at=now,
        running_at=now + timedelta(seconds=world.faults.read("boot_seconds", kind)),
        spot_request_id=new_id("sir") if is_spot else "",
    )
    world.instances[instance.instance_id] = instance
    world.tokens[str(asked.get("ClientToken") or instance.instance_id)] = instance.instance_id
    if world.faults.take("fail_pending", kind):
        world.begin_end(instance, "Server.InsufficientInstanceCapacity", "There was no capacity to start the instance.")
    return instance


def _visible(world: World, ids: Sequence[str], *, is_exact: bool = False) -> list[Instance]:
    """Instances old enough to be known, all or by id; raises Refused when one of the ids is not known."""
    horizon = clock.now() - timedelta(seconds=world.faults.read("consistency_seconds"))
    known = {each.instance_id: each for each in world.instances.values() if each.launched_at <= horizon}
    for instance_id in ids:
        if not re.fullmatch(r"i-[0-9a-f]{8,17}", instance_id):
            raise Refused("InvalidInstanceID.Malformed", f"Invalid id: {instance_id!r}.")
        if instance_id not in known:
            raise Refused("InvalidInstanceID.NotFound", f"The instance {instance_id!r} does not exist.")
    return [known[instance_id] for instance_id in ids] if ids or is_exact else list(known.values())


def _throttle(world: World, knob: str) -> None:
    if world.faults.take(knob):
        raise Refused("RequestLimitExceeded", "Request limit exceeded.", 503)


def _page(world: World, entries: list[Any], asked: Mapping[str, Any]) -> tuple[list[Any], str | None]:
    """One page of the entries and the token of the next; None when it is the last."""
    size = int(world.faults.read("page_size")) or int(asked.get("MaxResults", 1000))
    start = int(asked.get("NextToken") or 0)
    following = start + size
    return entries[start:following], str(following) if following < len(entries) else None


def _passes(shown: Mapping[str, Any], filters: Iterable[Mapping[str, Any]]) -> bool:
    """Whether an instance passes all filters; a value with `*` or `?` is a pattern, as with EC2."""
    facts = {
        "instance-id": shown["InstanceId"],
        "instance-state-name": shown["State"]["Name"],
        "client-token": shown["ClientToken"],
        "instance-type": shown["InstanceType"],
        **{f"tag:{tag['Key']}": tag["Value"] for tag in shown["Tags"]},
    }
    return all(any(re.fullmatch(translate(v), facts.get(each["Name"], "")) for v in each["Values"]) for each in filters)


def _state(name: str) -> dict[str, Any]:
    return {"Code": _CODES[name], "Name": name}


def _show(instance: Instance) -> dict[str, Any]:
    now = clock.now()
    state, asked = instance.state(now), instance.parameters
    has_ended = instance.end is not None and instance.end.at <= now
    tagged = [each["Tags"] for each in asked.get("TagSpecifications", []) if each["ResourceType"] == "instance"]
    shown = {
        "InstanceId": instance.instance_id,
        "ImageId": asked.get("ImageId"),
        "InstanceType": instance.instance_type,
        "ClientToken": asked.get("ClientToken", ""),
        "LaunchTime": instance.launched_at,
        "Placement": {"AvailabilityZone": instance.zone},
        "State": _state(state),
        "Tags": [tag for tags in tagged for tag in tags],
        "PrivateIpAddress": instance.ip if state != "terminated" else None,
        "PublicIpAddress": instance.ip if state == "running" else None,
        "InstanceLifecycle": "spot" if instance.spot_request_id else None,
        "SpotInstanceRequestId": instance.spot_request_id or None,
    }
    if has_ended and instance.end is not None:
        shown["StateReason"] = {"Code": instance.end.code, "Message": instance.end.message}
    return shown

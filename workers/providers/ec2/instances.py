"""An instance as EC2 tells it, told as the contract has it.

    EC2's state                 ended by the API           ended otherwise (its own shutdown, spot, a dead host)
    pending                     PENDING
    running                     RUNNING
    stopping, stopped           EXITED                     EXITED
    shutting-down               STOPPING                   EXITED
    terminated                  absent                     EXITED

A `terminated` instance stays in EC2's listings for about an hour; for the contract one that was ended by the API is gone.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from workers.providers.base import InstanceStatus, ProviderInstance, StartFailure
from workers.providers.ec2.request import TAG_OWNER, TAG_TOKEN, TAG_TYPE, from_tag
from workers.providers.ec2.user_data import END_MARK

ENDED_BY_API = "Client.UserInitiatedShutdown"
ENDED_BY_ITSELF = "Client.InstanceInitiatedShutdown"

_ID = re.compile(r"i-[0-9a-f]{8,32}")
_END = re.compile(rf"{END_MARK} (\w+) ([^\r\n]*)")


def is_id(text: str) -> bool:
    """Whether this can be the id of an EC2 instance; what cannot is never sent."""
    return bool(_ID.fullmatch(text))


def reason_code(item: Mapping[str, Any]) -> str:
    """The code of the instance's last state change (`Server.SpotInstanceTermination`), empty when there is none."""
    return str(item.get("StateReason", {}).get("Code", ""))


def status_of(item: Mapping[str, Any]) -> InstanceStatus | None:
    """The status by the table above; None = absent."""
    state = item["State"]["Name"]
    is_ended_by_api = reason_code(item) in (ENDED_BY_API, "")
    if state == "terminated":
        return None if is_ended_by_api else InstanceStatus.EXITED
    if state == "shutting-down":
        return InstanceStatus.STOPPING if is_ended_by_api else InstanceStatus.EXITED
    return {"pending": InstanceStatus.PENDING, "running": InstanceStatus.RUNNING}.get(state, InstanceStatus.EXITED)


def has_last_words(item: Mapping[str, Any]) -> bool:
    """Whether the machine shut itself down, having told its console why."""
    return reason_code(item) == ENDED_BY_ITSELF and status_of(item) is InstanceStatus.EXITED


def read_last_words(console: str) -> tuple[StartFailure, str] | None:
    """What `boot.sh` told the console last, as failure and detail; None when it told nothing."""
    found = _END.findall(console)
    if not found:
        return None
    word, detail = found[-1]
    failure = StartFailure.MODEL_DATA if word == StartFailure.MODEL_DATA else StartFailure.CONTAINER_EXITED
    return failure, detail.strip()


def show(item: Mapping[str, Any], *, port: int, is_public: bool, console: str = "") -> ProviderInstance:
    """The instance; one that is absent by the table is shown EXITED, for callers that were handed it by its token."""
    status = status_of(item) or InstanceStatus.EXITED
    named = {tag["Key"]: from_tag(tag["Value"]) for tag in item.get("Tags", [])}
    failure, detail = _end(item, console) if status is InstanceStatus.EXITED else (None, "")
    return ProviderInstance(
        provider_id=item["InstanceId"],
        token=named.get(TAG_TOKEN, ""),
        owner=named.get(TAG_OWNER, ""),
        instance_type=named.get(TAG_TYPE) or f"ml.{item.get('InstanceType', '')}",
        zone=item.get("Placement", {}).get("AvailabilityZone", ""),
        status=status,
        launched_at=_utc(item["LaunchTime"]),
        address=_address(item, port, is_public=is_public) if status is InstanceStatus.RUNNING else "",
        detail=detail,
        failure=failure,
    )


def _end(item: Mapping[str, Any], console: str) -> tuple[StartFailure | None, str]:
    """Why it ended: the machine's last words, else EC2's reason."""
    if reason_code(item) == ENDED_BY_ITSELF:
        return read_last_words(console) or (StartFailure.CONTAINER_EXITED, "the machine shut itself down")
    message = item.get("StateReason", {}).get("Message") or item.get("StateTransitionReason") or "no reason given"
    return None, f"EC2 ended it: {message}"[:300]


def _address(item: Mapping[str, Any], port: int, *, is_public: bool) -> str:
    host = item.get("PublicIpAddress" if is_public else "PrivateIpAddress", "")
    return f"{host}:{port}" if host else ""


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)

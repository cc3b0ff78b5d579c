"""A captured call as it is kept: one JSON line, and where it belongs. Pure.

    {"captureData": {"endpointInput": {observedContentType, mode, data, encoding}, "endpointOutput": ...},
     "eventMetadata": {eventId, inferenceId?, customAttributes?, inferenceTime}, "eventVersion": "0"}

A side whose media type the configuration lists as CSV or JSON is kept as text; every other one, and text that is none, in
base64. Times are UTC. Source: contract, data plane 1.10 and control plane 11.3.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.routing.table import Capture
from controlplane.wire.serialize import dump


@dataclass(frozen=True)
class Side:
    """What went in or came out."""

    content_type: str
    data: bytes


@dataclass(frozen=True)
class Record:
    """One call, as far as it is kept; a side that is not kept is None."""

    endpoint_name: str
    variant_name: str
    capture: Capture
    at: datetime
    event_id: str
    inference_id: str
    custom_attributes: str
    input: Side | None
    output: Side | None


def line(record: Record) -> bytes:
    """The record as a line, its end included."""
    sides = (("endpointInput", "INPUT", record.input), ("endpointOutput", "OUTPUT", record.output))
    data = {name: _side(side, mode, record.capture) for name, mode, side in sides if side is not None}
    return dump({"captureData": data, "eventMetadata": _metadata(record), "eventVersion": "0"}) + b"\n"


def folder(record: Record) -> str:
    """The s3:// location under which the record's file belongs, without a slash at its end."""
    place = f"{record.capture.destination.rstrip('/')}/{record.endpoint_name}/{record.variant_name}"
    return f"{place}/{record.at:%Y/%m/%d/%H}"


def file_name(record: Record) -> str:
    """The name of a file that begins with this record."""
    return f"{record.at:%M-%S}-{record.at.microsecond // 1000:03}-{record.event_id}.jsonl"


def _metadata(record: Record) -> Mapping[str, Any]:
    found: dict[str, Any] = {"eventId": record.event_id}
    if record.custom_attributes:
        found["customAttributes"] = [record.custom_attributes]
    if record.inference_id:
        found["inferenceId"] = record.inference_id
    return {**found, "inferenceTime": f"{record.at:%Y-%m-%dT%H:%M:%SZ}"}


def _side(side: Side, mode: str, capture: Capture) -> dict[str, str]:
    encoding, data = _encoded(side, capture)
    return {"observedContentType": side.content_type, "mode": mode, "data": data, "encoding": encoding}


def _encoded(side: Side, capture: Capture) -> tuple[str, str]:
    media_type = side.content_type.partition(";")[0].strip().lower()
    for encoding, types in (("CSV", capture.csv_types), ("JSON", capture.json_types)):
        if media_type in (each.lower() for each in types):
            try:
                return encoding, side.data.decode("utf-8")
            except UnicodeDecodeError:
                break
    return "BASE64", base64.b64encode(side.data).decode()

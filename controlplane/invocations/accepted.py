"""One accepted request as it is stored, and how it travels into the database."""

from datetime import datetime
from typing import NamedTuple

from controlplane.invocations import columns
from controlplane.invocations.line import Pack


class Accepted(NamedTuple):
    """One request as it is stored: its payload is `body`, or else is at `input_location`.

    The ids are UUIDs, written out. `delivery` is the JSON of what its endpoint says of outcomes (see
    `invocations.delivery`).
    """

    id: str
    account_id: str
    endpoint_id: str
    endpoint_name: str
    inference_id: str
    content_type: str
    accept: str
    custom_attributes: str
    accepted_at: datetime
    expires_at: datetime
    timeout_seconds: int
    output_location: str
    failure_location: str
    body: bytes
    input_location: str = ""
    delivery: str = "{}"


class Field(NamedTuple):
    """The type of a column, and how one value and many become that type and an array of it."""

    type: str
    one: Pack
    many: Pack


_ID = Field("uuid", columns.written_uuid, columns.written_uuids)
_TEXT = Field("varchar", columns.text, columns.texts)
_MOMENT = Field("timestamptz", columns.moment, columns.times)

FIELDS = dict.fromkeys(Accepted._fields, _TEXT) | {
    "id": _ID,
    "endpoint_id": _ID,
    "accepted_at": _MOMENT,
    "expires_at": _MOMENT,
    "timeout_seconds": Field("int", columns.integer, columns.integers),
    "body": Field("bytea", columns.blob, columns.blobs),
    "delivery": Field("jsonb", columns.document, columns.documents),
}

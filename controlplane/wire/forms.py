"""How a protocol writes things down: requests to read, answers and errors to write.

`JsonForm` is JSON 1.0 and 1.1; `cbor` and `query` have the other two. What stands in a document is driven by the shapes
in all of them (`parse`, `serialize`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.model import OperationModel, StructureShape

from controlplane.core.errors import ApiError
from controlplane.wire import parse, serialize
from controlplane.wire.errors import Headers, WireResponse, json11_error
from controlplane.wire.services import Service


class Form(Protocol):
    """One protocol of one service."""

    @property
    def service(self) -> Service:
        """Whose requests these are."""
        ...

    def read(self, body: bytes, shape: StructureShape | None) -> dict[str, Any]:
        """The members of a request; raises SerializationException."""
        ...

    def write(self, model: OperationModel, answer: Mapping[str, Any], request_id: str) -> WireResponse:
        """A handler's answer as it goes out."""
        ...

    def error(self, error: ApiError, request_id: str) -> WireResponse:
        """An error as it goes out."""
        ...


@dataclass(frozen=True)
class JsonForm:
    """JSON in the body, the operation in a header."""

    service: Service

    def read(self, body: bytes, shape: StructureShape | None) -> dict[str, Any]:
        return parse.parse_json(body, shape)

    def write(self, model: OperationModel, answer: Mapping[str, Any], request_id: str) -> WireResponse:
        body = serialize.to_json(model.output_shape, answer)
        return WireResponse(200, (("Content-Type", self.service.json_type), ("x-amzn-RequestId", request_id)), body)

    def error(self, error: ApiError, request_id: str) -> WireResponse:
        plain = json11_error(error, request_id)
        kept = tuple(pair for pair in plain.headers if pair[0] != "Content-Type")
        headers = (("Content-Type", self.service.json_type), *kept, *query_error(self.service, error))
        return WireResponse(plain.status, headers, plain.body)


def query_error(service: Service, error: ApiError) -> Headers:
    """The code as the query protocol called it, and whose fault it is: what clients of such services match on."""
    if not service.speaks_query:
        return ()
    return (("x-amzn-query-error", f"{error.code};{'Sender' if error.is_client_fault else 'Receiver'}"),)

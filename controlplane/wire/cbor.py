"""The Smithy RPC v2 protocol with CBOR: one path for each operation, a CBOR map as the body both ways.

botocore has the reader and the writer of CBOR; here they are used from the other side. Source of the rest:
https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.model import OperationModel, StructureShape
from botocore.parsers import BaseCBORParser, ResponseParserError
from botocore.serialize import RpcV2CBORSerializer

from controlplane.core.errors import ApiError, SerializationException
from controlplane.wire import parse
from controlplane.wire.errors import Headers, WireResponse
from controlplane.wire.forms import query_error
from controlplane.wire.services import Service

CBOR = "application/cbor"


@dataclass(frozen=True)
class CborForm:
    """CBOR in the body, the operation in the path."""

    service: Service

    def read(self, body: bytes, shape: StructureShape | None) -> dict[str, Any]:
        document = _decoded(body) if body else {}
        if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
            raise SerializationException("The body must be a CBOR map with text keys.")
        return parse.parse_document(document, shape)

    def write(self, model: OperationModel, answer: Mapping[str, Any], request_id: str) -> WireResponse:
        if model.output_shape is None:
            return WireResponse(200, (("smithy-protocol", "rpc-v2-cbor"), ("x-amzn-RequestId", request_id)), b"")
        return WireResponse(200, _headers(request_id), _encoded(answer, model.output_shape))

    def error(self, error: ApiError, request_id: str) -> WireResponse:
        headers = (*_headers(request_id), ("x-amzn-ErrorType", error.code), *query_error(self.service, error))
        return WireResponse(error.status, headers, _error_body(error))


def _headers(request_id: str) -> Headers:
    return (("Content-Type", CBOR), ("smithy-protocol", "rpc-v2-cbor"), ("x-amzn-RequestId", request_id))


def _decoded(body: bytes) -> Any:
    parser = BaseCBORParser(timestamp_parser=lambda seconds: datetime.fromtimestamp(seconds, UTC))
    stream = parser.get_peekable_stream_from_bytes(body)
    try:
        found = parser.parse_data_item(stream)
    except (ResponseParserError, ValueError, TypeError, OverflowError, OSError, RecursionError, MemoryError) as error:
        # MemoryError and OverflowError stand for a text that claims to be longer than any body.
        raise SerializationException("The body is not valid CBOR.") from error
    if stream.read(1):
        raise SerializationException("The body holds more than one CBOR item.")
    return found


def _encoded(value: Mapping[str, Any], shape: StructureShape) -> bytes:
    body = bytearray()
    RpcV2CBORSerializer()._serialize_data_item(body, value, shape)
    return bytes(body)


def _error_body(error: ApiError) -> bytes:
    serializer, body = RpcV2CBORSerializer(), bytearray(b"\xa2")  # a map of two
    for text in ("__type", error.code, "message", error.message):
        serializer._serialize_type_string(body, text, None, None)
    return bytes(body)

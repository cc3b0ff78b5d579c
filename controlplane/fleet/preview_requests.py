"""Requests for previews, checked by the same rules as the operations that they rehearse."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.catalog.instance_types import known_instance_types
from controlplane.catalog.rules import config_violations
from controlplane.catalog.services import refuse_violations
from controlplane.core.errors import ValidationException
from controlplane.endpoints import options
from controlplane.endpoints.options import Options
from controlplane.wire import parse, validate
from controlplane.wire.doors import SERVICE
from controlplane.wire.model import load_service


def checked_variants(variants: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """ProductionVariants that CreateEndpointConfig would take, models aside; raises its errors for others."""
    shape = load_service(SERVICE).operation_model("CreateEndpointConfig").input_shape
    document = {"EndpointConfigName": "preview", "ProductionVariants": list(variants)}
    params = parse.parse_document(document, shape)
    validate.check(shape, params, ValidationException, known_instance_types)
    refuse_violations(config_violations(params))
    found: list[dict[str, Any]] = params["ProductionVariants"]
    return found


def checked_options(tags: Iterable[Mapping[str, str]]) -> Options:
    """The options among these tags; raises CreateEndpoint's error for those that it would refuse."""
    pairs = [(tag["Key"], tag["Value"]) for tag in tags]
    refuse_violations(options.violations(pairs))
    return options.parse(pairs)

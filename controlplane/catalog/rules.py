"""Rules that span several members of a request; what a single member may hold is checked by `wire.validate`.

Each function yields one sentence for each violation, so that a caller hears of all of them at once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controlplane.core.locations import KEY_LIMIT_BYTES, key_bytes

TAGS_LIMIT = 50
RESERVED_TAG_PREFIX = "aws:"
OPTION_TAG_PREFIX = "headrace:"
"""Tags that ask for something beyond the API; they have an effect on endpoints only (see `endpoints.options`)."""

GENERATED_NAMES = {
    "S3OutputPath": "/00000000-0000-0000-0000-000000000000.out",
    "S3FailurePath": "/00000000-0000-0000-0000-000000000000-error.out",
}
"""What is put behind each path for a request that names no file: as long as this."""

CONTENT_STRATEGIES = frozenset({"PREFIX_AWARE", "KV_AWARE"})
"""Strategies that choose an instance by what a call holds; a queue's requests go where there is room."""


def model_violations(params: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a CreateModel request as a whole."""
    has_primary, containers = "PrimaryContainer" in params, params.get("Containers", [])
    if has_primary == bool(containers):
        yield "Specify exactly one of PrimaryContainer and Containers."
    if len(containers) > 1:
        yield "Containers with more than one container (inference pipelines) is not supported by Headrace."
    for container in [params["PrimaryContainer"]] if has_primary else containers:
        if not container.get("Image"):
            yield "A container must name its Image."
        yield from _environment_violations(container.get("Environment", {}))
        if container.get("ModelDataUrl", "s3://").startswith("https://"):
            yield "ModelDataUrl must be an s3:// location; Headrace fetches no other addresses."


def _environment_violations(environment: Mapping[str, str]) -> Iterator[str]:
    """All variables of a model together may hold 32 KB (contract section 3)."""
    size = sum(len(key.encode()) + len(value.encode()) for key, value in environment.items())
    if size > 32 * 1024:
        yield f"Environment holds {size} bytes; all variables together may hold 32768."


def config_violations(params: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a CreateEndpointConfig request as a whole, except for models that do not exist."""
    variants, shadows = params["ProductionVariants"], params.get("ShadowProductionVariants", [])
    for name in _repeated(variant["VariantName"] for variant in [*variants, *shadows]):
        yield f'Variant name "{name}" is used more than once in ProductionVariants.'
    for variant in variants:
        yield from _variant_violations(variant, "Production")
    for variant in shadows:
        yield from _variant_violations(variant, "Shadow")
    if shadows and (len(variants), len(shadows)) != (1, 1):
        yield "ShadowProductionVariants needs exactly one shadow variant beside exactly one production variant."
    if "AsyncInferenceConfig" in params:
        yield from _async_violations(params["AsyncInferenceConfig"])
        yield from _real_time_only(params)
    if "DataCaptureConfig" in params:
        yield from _capture_violations(params["DataCaptureConfig"])


def _real_time_only(params: Mapping[str, Any]) -> Iterator[str]:
    for member in ("ShadowProductionVariants", "DataCaptureConfig"):
        if params.get(member):
            yield f"{member} is not supported by Headrace together with AsyncInferenceConfig."
    for variant in params["ProductionVariants"]:
        strategy = variant.get("RoutingConfig", {}).get("RoutingStrategy")
        if strategy in CONTENT_STRATEGIES:
            yield (
                f'Production variant "{variant["VariantName"]}": RoutingStrategy {strategy} is not supported by Headrace '
                "together with AsyncInferenceConfig; whichever instance has a free place takes the next of the queue."
            )


def _capture_violations(config: Mapping[str, Any]) -> Iterator[str]:
    bucket = config["DestinationS3Uri"].removeprefix("s3://").partition("/")[0]
    if not config["DestinationS3Uri"].startswith("s3://") or not bucket:
        yield "DataCaptureConfig.DestinationS3Uri must be an s3:// location."
    types = config.get("CaptureContentTypeHeader", {})
    for name in _repeated([*types.get("CsvContentTypes", []), *types.get("JsonContentTypes", [])]):
        yield f'DataCaptureConfig.CaptureContentTypeHeader lists "{name}" more than once.'


def _variant_violations(variant: Mapping[str, Any], kind: str) -> Iterator[str]:
    where = f'{kind} variant "{variant["VariantName"]}"'
    if ("InstanceType" in variant) == ("InstancePools" in variant):
        yield f"{where} must specify exactly one of InstanceType and InstancePools."
    if "InitialInstanceCount" not in variant:
        yield f"{where} must specify InitialInstanceCount."
    if not variant.get("ModelName"):
        yield f"{where} must specify ModelName; inference components are not supported by Headrace."
    for instance_type in _repeated(pool["InstanceType"] for pool in variant.get("InstancePools", [])):
        yield f"{where} lists the instance type {instance_type} in more than one of its InstancePools."
    yield from _routing_violations(where, variant.get("RoutingConfig", {}))


def _routing_violations(where: str, routing: Mapping[str, Any]) -> Iterator[str]:
    """PREFIX_AWARE needs its numbers, though the model marks neither as required; no other strategy has any
    (contract, data plane 3.1)."""
    settings, strategy = routing.get("PrefixAwareRoutingConfig"), routing.get("RoutingStrategy")
    if strategy != "PREFIX_AWARE":
        if settings is not None:
            yield f"{where} may specify PrefixAwareRoutingConfig only with the RoutingStrategy PREFIX_AWARE."
        return
    for member in ("PrefixLength", "ConcurrencyThreshold"):
        if member not in (settings or {}):
            yield f"{where} must specify PrefixAwareRoutingConfig.{member} for the RoutingStrategy PREFIX_AWARE."


def _async_violations(config: Mapping[str, Any]) -> Iterator[str]:
    output = config["OutputConfig"]
    if not output.get("S3OutputPath"):
        yield "AsyncInferenceConfig.OutputConfig must specify S3OutputPath."
    for member in GENERATED_NAMES:
        path = output.get(member, "s3://")
        if not path.startswith("s3://"):
            yield f"AsyncInferenceConfig.OutputConfig.{member} must be an s3:// location."
        elif not (path.isascii() and path.isprintable()):
            # A key may be any text, but each caller is told it in a header, which may not.
            yield f"AsyncInferenceConfig.OutputConfig.{member} must consist of printable ASCII characters."
        elif (size := key_bytes(path.rstrip("/") + GENERATED_NAMES[member])) > KEY_LIMIT_BYTES:
            yield (
                f"AsyncInferenceConfig.OutputConfig.{member} makes keys of {size} bytes with the names that are put behind "
                f"it; a key may hold {KEY_LIMIT_BYTES}."
            )


def encryption_violations(params: Mapping[str, Any], *, store_encrypts: bool) -> Iterator[str]:
    """What is wrong with asking for encrypted outputs of a store that has no keys."""
    places = {
        "AsyncInferenceConfig.OutputConfig": params.get("AsyncInferenceConfig", {}).get("OutputConfig", {}),
        "DataCaptureConfig": params.get("DataCaptureConfig", {}),
    }
    for where in (name for name, config in places.items() if config.get("KmsKeyId") and not store_encrypts):
        yield (
            f"{where}.KmsKeyId has no effect with the embedded store, which has no keys; set "
            "HEADRACE_S3_ENDPOINT_URL to a store that encrypts with them, or leave it out."
        )


def tag_violations(tags: Iterable[Mapping[str, str]], existing: Iterable[str] = ()) -> Iterator[str]:
    """What is wrong with adding `tags` to a resource that has the keys `existing`."""
    keys = [tag["Key"] for tag in tags]
    for key in _repeated(keys):
        yield f'Tag key "{key}" is given more than once.'
    for key in keys:
        if key.lower().startswith(RESERVED_TAG_PREFIX):
            yield f'Tag key "{key}" starts with the reserved prefix {RESERVED_TAG_PREFIX}.'
    total = len(set(keys) | set(existing))
    if total > TAGS_LIMIT:
        yield f"A resource may have {TAGS_LIMIT} tags; this one would have {total}."


def misplaced_option_violations(tags: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """What is wrong with option tags on anything but an endpoint: they would do nothing there."""
    for tag in tags:
        if tag["Key"].startswith(OPTION_TAG_PREFIX):
            yield f'Tag "{tag["Key"]}" is an option of endpoints and has no effect here.'


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]

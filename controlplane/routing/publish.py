"""Writing the routing table: one document for each endpoint, in the transaction that changed the facts it is made of.

NOTIFY tells the gateways which endpoint changed; it is sent by the database when, and only if, the transaction commits.
A gateway that misses it finds the higher revision at its next comparison.
"""

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.states import SERVING
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage
from controlplane.invocations.delivery import Delivery
from controlplane.routing import table
from controlplane.routing.models import RoutingSnapshot


def publish(endpoint: Endpoint, now: datetime) -> None:
    """Store the endpoint's document as its facts are now, if it differs from the stored one."""
    document = table.encode(_route(endpoint))
    stored = RoutingSnapshot.objects.filter(endpoint_id=endpoint.id).values_list("document", flat=True).first()
    if stored != document:
        _write(endpoint, document, now)


def bury(endpoint: Endpoint, now: datetime) -> None:
    """Leave a tombstone: calls to the endpoint find nothing from now on."""
    _write(endpoint, None, now)


def _route(endpoint: Endpoint) -> table.Route:
    rows = Instance.objects.filter(endpoint=endpoint, stage__in=(InstanceStage.READY, InstanceStage.DRAINING))
    by_variant: dict[int, list[table.Target]] = {}
    for row in rows.order_by("launched_at", "id"):
        target = table.Target(str(row.id), row.address, row.instance_type, row.stage == InstanceStage.DRAINING)
        by_variant.setdefault(row.variant_id, []).append(target)
    rows_of_variants = list(endpoint.variants.filter(retired_at=None))
    production, shadows = (
        tuple(_variant(row, by_variant.get(row.id, [])) for row in rows_of_variants if row.is_shadow == is_shadow)
        for is_shadow in (False, True)
    )
    return table.Route(
        endpoint_id=str(endpoint.id),
        account_id=endpoint.account_id,
        endpoint_name=endpoint.name,
        status=endpoint.phase,
        is_serving=endpoint.phase in SERVING,
        async_inference=_async_inference(endpoint),
        variants=production,
        shadows=shadows,
    )


def _variant(row: EndpointVariant, targets: list[table.Target]) -> table.VariantRoute:
    return table.VariantRoute(
        row.name,
        row.current_weight,
        row.routing_strategy,
        tuple(targets),
        row.traffic_share,
        row.config_name,
        _prefix_aware(row),
        _capture(row.data_capture),
    )


def _capture(config: dict[str, Any] | None) -> table.Capture | None:
    if config is None or not config.get("EnableCapture", True):
        return None
    modes = {option["CaptureMode"] for option in config["CaptureOptions"]}
    types = config.get("CaptureContentTypeHeader", {})
    return table.Capture(
        config["DestinationS3Uri"],
        config["InitialSamplingPercentage"],
        bool(modes & {"Input", "InputAndOutput"}),
        bool(modes & {"Output", "InputAndOutput"}),
        tuple(types.get("CsvContentTypes", ())),
        tuple(types.get("JsonContentTypes", ())),
        config.get("KmsKeyId", ""),
    )


def _prefix_aware(variant: EndpointVariant) -> table.PrefixAware | None:
    if variant.prefix_length is None or variant.concurrency_threshold is None:
        return None
    return table.PrefixAware(variant.prefix_length, variant.concurrency_threshold)


def _async_inference(endpoint: Endpoint) -> table.AsyncInference | None:
    config = endpoint.async_inference
    if config is None:
        return None
    output = config["OutputConfig"]
    return table.AsyncInference(
        output["S3OutputPath"],
        output.get("S3FailurePath", ""),
        config.get("ClientConfig", {}).get("MaxConcurrentInvocationsPerInstance"),
        json.dumps(Delivery.of_config(config).document, separators=(",", ":")),
    )


def _write(endpoint: Endpoint, document: dict[str, object] | None, now: datetime) -> None:
    RoutingSnapshot.objects.update_or_create(
        endpoint_id=endpoint.id,
        defaults={
            "account_id": endpoint.account_id,
            "endpoint_name": endpoint.name,
            "revision": _next_revision(),
            "document": document,
            "changed_at": now,
        },
    )
    _notify(endpoint.id)


def _next_revision() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('routing_revision')")
        return int(cursor.fetchone()[0])


def _notify(endpoint_id: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [table.CHANNEL, str(endpoint_id)])

"""`POST /api/v1/placement-previews`: where an endpoint would land if it were created now, and what it would cost."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.catalog.selectors import get_endpoint_config
from controlplane.core import clock
from controlplane.fleet import previews
from controlplane.fleet.preview_requests import checked_options, checked_variants
from controlplane.rest.members import checked_body
from controlplane.rest.rungs import RungSerializer
from controlplane.rest.schema import ERROR


class PreviewTagSerializer(serializers.Serializer):
    """A tag as CreateEndpoint takes it."""

    Key = serializers.CharField(max_length=128)
    Value = serializers.CharField(max_length=256, allow_blank=True)


@extend_schema_field(
    {"type": "array", "items": {"$ref": "#/components/schemas/ProductionVariantRequest"}, "minItems": 1, "maxItems": 10}
)
class VariantsField(serializers.ListField):
    """Production variants as CreateEndpointConfig takes them, checked by whoever checks those."""

    child = serializers.DictField()


class PreviewRequest(serializers.Serializer):
    """What to preview: a stored configuration by its name, or production variants as CreateEndpointConfig takes them."""

    EndpointConfigName = serializers.CharField(required=False)
    ProductionVariants = VariantsField(required=False, min_length=1, max_length=10)
    Tags = PreviewTagSerializer(many=True, required=False, help_text="Options such as headrace:max-hourly-price.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("EndpointConfigName" in attrs) == ("ProductionVariants" in attrs):
            raise serializers.ValidationError("Specify exactly one of EndpointConfigName and ProductionVariants.")
        return attrs


class LandingSerializer(serializers.Serializer):
    """So many instances on one offering."""

    InstanceType = serializers.CharField(source="offering.pool.instance_type")
    Priority = serializers.IntegerField(source="offering.pool.priority")
    Zone = serializers.CharField(source="offering.zone")
    Market = serializers.CharField(source="offering.market")
    InstanceCount = serializers.IntegerField(source="count")
    HourlyCost = serializers.FloatField(source="hourly_cost", allow_null=True, help_text="US dollars, of all of them.")
    AskedAfterSeconds = serializers.FloatField(source="after_seconds")
    IsCertain = serializers.BooleanField(source="is_certain", help_text="False where the provider tells no free slots.")
    ReadySecondsP50 = serializers.FloatField(source="boots.p50_seconds", default=None, allow_null=True)
    ReadySecondsP90 = serializers.FloatField(source="boots.p90_seconds", default=None, allow_null=True)
    ReadySamples = serializers.IntegerField(source="boots.count", default=0)
    Why = serializers.CharField(source="why", allow_blank=True, help_text="Why more wanted offerings were passed over.")


class VariantPreviewSerializer(serializers.Serializer):
    """Where a variant's instances would land, and the story of the search."""

    VariantName = serializers.CharField(source="name")
    InstanceCount = serializers.IntegerField(source="wanted")
    MissingCount = serializers.IntegerField(source="missing")
    Landings = LandingSerializer(source="landings", many=True)
    Ladder = RungSerializer(source="ladder", many=True)
    Story = serializers.ListField(source="story", child=serializers.CharField())


class PreviewSerializer(serializers.Serializer):
    """The preview of a whole endpoint."""

    WouldServe = serializers.BooleanField(source="would_serve")
    Refusal = serializers.CharField(source="refusal", allow_blank=True, help_text="The error CreateEndpoint would answer.")
    HourlyCost = serializers.FloatField(source="hourly_cost", allow_null=True, help_text="US dollars; null: not known.")
    DailyCost = serializers.FloatField(source="daily_cost", allow_null=True, help_text="US dollars.")
    ReadySecondsP50 = serializers.FloatField(source="ready_p50_seconds", allow_null=True)
    ReadySecondsP90 = serializers.FloatField(source="ready_p90_seconds", allow_null=True)
    FreeSlotsSeenAt = serializers.DateTimeField(source="seen_at", allow_null=True)
    Variants = VariantPreviewSerializer(source="variants", many=True)


class PlacementPreviewsView(APIView):
    """Previews; nothing of them is kept."""

    is_read = True

    @extend_schema(
        operation_id="PreviewPlacement", request=PreviewRequest, responses={200: PreviewSerializer, "default": ERROR}
    )
    def post(self, request: Request) -> Response:
        """Tell where an endpoint's instances would land if it were created now, at what cost, and why. Changes nothing."""
        account_id, members = request.user.account_id, checked_body(request, PreviewRequest)
        plans = _plans(account_id, members)
        options = checked_options(members.get("Tags", []))
        return Response(PreviewSerializer(previews.make(account_id, plans, options, clock.now())).data)


def _plans(account_id: str, members: Mapping[str, Any]) -> list[previews.VariantPlan]:
    if "EndpointConfigName" in members:
        config = get_endpoint_config(account_id, settings.HEADRACE.region, members["EndpointConfigName"])
        return previews.of_config(config)
    return previews.of_request(checked_variants(members["ProductionVariants"]))

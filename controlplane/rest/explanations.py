"""`/api/v1/endpoints/{name}/explanation`: where an endpoint stands, why, what was tried, what comes next, what it cost."""

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.endpoints.selectors import get_endpoint
from controlplane.fleet.explanations import explain
from controlplane.rest.events import EventSerializer
from controlplane.rest.rungs import PoolSpendSerializer, SpendSerializer, StepSerializer
from controlplane.rest.schema import ERROR


class InstanceSerializer(serializers.Serializer):
    """A live instance: its stage, since when, and why."""

    InstanceId = serializers.CharField(source="id")
    InstanceType = serializers.CharField(source="instance_type")
    Zone = serializers.CharField(source="zone")
    Market = serializers.CharField(source="market")
    Stage = serializers.CharField(source="stage")
    Since = serializers.DateTimeField(source="since")
    Reason = serializers.CharField(source="reason", allow_blank=True)
    HourlyPrice = serializers.FloatField(source="hourly_price", allow_null=True, help_text="US dollars, as of its launch.")


class VariantStorySerializer(serializers.Serializer):
    """A variant of one revision, with its ladder and its instances."""

    VariantName = serializers.CharField(source="name")
    Revision = serializers.IntegerField(source="revision")
    CurrentInstanceCount = serializers.IntegerField(source="current_count")
    DesiredInstanceCount = serializers.IntegerField(source="desired_count")
    GivesUpAt = serializers.DateTimeField(source="gives_up_at", allow_null=True)
    RestsUntil = serializers.DateTimeField(source="rests_until", allow_null=True)
    StartFailures = serializers.IntegerField(source="start_failures")
    StartFailureReason = serializers.CharField(source="start_failure_reason", allow_blank=True)
    Ladder = StepSerializer(source="ladder", many=True)
    Instances = InstanceSerializer(source="instances", many=True)


class ExplanationSerializer(serializers.Serializer):
    """The story of an endpoint."""

    At = serializers.DateTimeField(source="at")
    EndpointName = serializers.CharField(source="endpoint.name")
    EndpointStatus = serializers.CharField(source="endpoint.phase")
    InWords = serializers.CharField(source="in_words")
    Why = serializers.CharField(source="endpoint.why", allow_blank=True, help_text="The last plan's sentence.")
    FailureReason = serializers.CharField(source="endpoint.failure_reason", allow_blank=True)
    NextLookAt = serializers.DateTimeField(source="endpoint.look_again_at")
    Variants = VariantStorySerializer(source="variants", many=True)
    Spend = SpendSerializer(source="total_spend")
    SpendByPool = PoolSpendSerializer(source="spend", many=True)
    Events = EventSerializer(source="events", many=True, help_text="The last ones, the oldest first.")


class ExplanationView(APIView):
    """The story of one endpoint."""

    @extend_schema(operation_id="ExplainEndpoint", responses={200: ExplanationSerializer, "default": ERROR})
    def get(self, request: Request, name: str) -> Response:
        """Tell where an endpoint stands and why, which offerings were tried, what is tried next and when, and the cost."""
        endpoint = get_endpoint(request.user.account_id, settings.HEADRACE.region, name)
        return Response(ExplanationSerializer(explain(endpoint, clock.now())).data)

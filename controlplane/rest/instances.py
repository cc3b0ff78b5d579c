"""`/api/v1/endpoints/{name}/instances`: an endpoint's live instances, one by one, and how to have one of them gone."""

from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.core.ids import Arn
from controlplane.endpoints.selectors import get_endpoint
from controlplane.fleet import leaving
from controlplane.fleet.in_flight import calls_at
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage, Leave
from controlplane.rest.schema import ERROR


class LiveInstanceSerializer(serializers.Serializer):
    """A live instance: its stage, since when and why, and whether an operator wants it gone."""

    InstanceId = serializers.UUIDField(source="id")
    VariantName = serializers.CharField(source="variant.name")
    Revision = serializers.IntegerField(source="variant.revision")
    InstanceType = serializers.CharField(source="instance_type")
    Provider = serializers.CharField(source="provider")
    ProviderId = serializers.CharField(source="provider_id")
    Zone = serializers.CharField(source="zone")
    Market = serializers.CharField(source="market")
    Stage = serializers.ChoiceField(choices=InstanceStage.values, source="stage")
    StageSince = serializers.DateTimeField(source="stage_since")
    Reason = serializers.CharField(source="reason", allow_blank=True)
    LaunchedAt = serializers.DateTimeField(source="launched_at")
    ReadyAt = serializers.DateTimeField(source="ready_at", allow_null=True)
    EndsAt = serializers.DateTimeField(source="ends_at", allow_null=True, help_text="When its provider takes it away.")
    HourlyPrice = serializers.DecimalField(
        source="hourly_price",
        max_digits=12,
        decimal_places=4,
        coerce_to_string=False,
        allow_null=True,
        help_text="US dollars, as of its launch.",
    )
    InFlight = serializers.SerializerMethodField(help_text="Calls under way there, as the live gateways last said.")
    Leave = serializers.ChoiceField(
        choices=Leave.values,
        source="leave",
        allow_blank=True,
        help_text="How an operator wants it gone; blank: not at all.",
    )
    LeaveAskedAt = serializers.DateTimeField(source="leave_asked_at", allow_null=True)
    LeaveAskedBy = serializers.CharField(source="leave_asked_by", allow_blank=True)

    def get_InFlight(self, row: Instance) -> int:
        calls: dict[UUID, int] = self.context["calls"]
        return calls.get(row.id, 0)


class LiveInstanceList(serializers.Serializer):
    """All live instances, in the order of their launch."""

    Instances = LiveInstanceSerializer(many=True)


class InstancesView(APIView):
    """The instances of one endpoint."""

    @extend_schema(operation_id="ListInstances", responses={200: LiveInstanceList, "default": ERROR})
    def get(self, request: Request, name: str) -> Response:
        """List an endpoint's live instances with their stages, reasons and calls in flight."""
        endpoint = get_endpoint(request.user.account_id, settings.HEADRACE.region, name)
        rows = leaving.live_instances(endpoint)
        return Response(LiveInstanceList({"Instances": rows}, context={"calls": calls_at(rows, clock.now())}).data)


class DrainInstanceView(APIView):
    """Ending one instance."""

    @extend_schema(operation_id="DrainInstance", request=None, responses={200: LiveInstanceSerializer, "default": ERROR})
    def post(self, request: Request, name: str, instance_id: UUID) -> Response:
        """Send an instance away at once: no new calls, and its end with those under way. Another is searched for."""
        row = leaving.drain(arn=_arn(request, name), instance_id=instance_id, now=clock.now())
        return _answer(row)


class ReplaceInstanceView(APIView):
    """Replacing one instance."""

    @extend_schema(operation_id="ReplaceInstance", request=None, responses={200: LiveInstanceSerializer, "default": ERROR})
    def post(self, request: Request, name: str, instance_id: UUID) -> Response:
        """Send an instance away once another serves in its place; without capacity for one it stays."""
        row = leaving.replace(arn=_arn(request, name), instance_id=instance_id, now=clock.now())
        return _answer(row)


def _arn(request: Request, name: str) -> Arn:
    return Arn(settings.HEADRACE.region, request.user.account_id, "endpoint", name)


def _answer(row: Instance) -> Response:
    return Response(LiveInstanceSerializer(row, context={"calls": calls_at([row], clock.now())}).data)

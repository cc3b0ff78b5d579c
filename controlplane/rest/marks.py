"""`/api/v1/capacity-marks`: what is remembered of refusals."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.fleet import marks
from controlplane.rest.schema import ERROR


class CapacityMarkSerializer(serializers.Serializer):
    """A remembered refusal: the offering is skipped until `Until`, then one launch probes it."""

    Id = serializers.IntegerField(source="id")
    Provider = serializers.CharField(source="provider")
    Region = serializers.CharField(source="region")
    Zone = serializers.CharField(source="zone")
    InstanceType = serializers.CharField(source="instance_type")
    Market = serializers.CharField(source="market")
    Kind = serializers.CharField(source="kind")
    Message = serializers.CharField(source="message")
    MarkedAt = serializers.DateTimeField(source="marked_at")
    Until = serializers.DateTimeField(source="until")
    Streak = serializers.IntegerField(source="streak", help_text="Refusals in a row.")
    SeenBy = serializers.CharField(source="seen_by", help_text="The endpoint that met it, where it is one of yours.")
    ProbeExpiresAt = serializers.DateTimeField(source="probe_expires_at", allow_null=True)


class CapacityMarkList(serializers.Serializer):
    """All marks."""

    CapacityMarks = CapacityMarkSerializer(many=True)


class CapacityMarksView(APIView):
    """All marks."""

    @extend_schema(operation_id="ListCapacityMarks", responses={200: CapacityMarkList, "default": ERROR})
    def get(self, request: Request) -> Response:
        """List what is remembered of refusals, the latest first."""
        return Response(CapacityMarkList({"CapacityMarks": marks.listed(request.user.account_id)}).data)


class CapacityMarkView(APIView):
    """One mark."""

    @extend_schema(operation_id="DeleteCapacityMark", responses={204: None, "default": ERROR})
    def delete(self, request: Request, mark_id: int) -> Response:
        """Forget one refusal: the next search asks the offering again."""
        marks.forget(request.user.account_id, mark_id, clock.now())
        return Response(status=204)

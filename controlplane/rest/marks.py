"""`/api/v1/capacity-marks`: what is remembered of refusals."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.core.offerings import MARKETS
from controlplane.fleet import marks
from controlplane.fleet.models import CapacityMark
from controlplane.rest.members import NEXT_TOKEN, PagingQuery, checked_query
from controlplane.rest.paging import page
from controlplane.rest.schema import ERROR

FILTERS = {"InstanceType": "instance_type", "Zone": "zone", "Market": "market"}


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


class CapacityMarkPage(serializers.Serializer):
    """A page of marks."""

    CapacityMarks = CapacityMarkSerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text=NEXT_TOKEN)


class CapacityMarkQuery(PagingQuery):
    """Which marks are meant."""

    InstanceType = serializers.CharField(required=False, max_length=64)
    Zone = serializers.CharField(required=False, max_length=64)
    Market = serializers.ChoiceField(choices=MARKETS, required=False)


class ForgetQuery(serializers.Serializer):
    """Which marks are to be forgotten."""

    InstanceType = serializers.CharField(max_length=64)
    Zone = serializers.CharField(required=False, max_length=64, help_text="Only in this zone.")


class ForgottenSerializer(serializers.Serializer):
    """What was forgotten."""

    Forgotten = serializers.IntegerField(help_text="So many marks.")


class CapacityMarksView(APIView):
    """All marks."""

    @extend_schema(
        operation_id="ListCapacityMarks",
        parameters=[CapacityMarkQuery],
        responses={200: CapacityMarkPage, "default": ERROR},
    )
    def get(self, request: Request) -> Response:
        """List what is remembered of refusals, the latest first."""
        members, account_id = checked_query(request, CapacityMarkQuery), request.user.account_id
        filters = {column: members[name] for name, column in FILTERS.items() if name in members}
        found = page(CapacityMark.objects.filter(**filters), "capacity-marks", members)
        shown = marks.shown_to(account_id, found.rows)
        return Response(CapacityMarkPage({"CapacityMarks": shown, "NextToken": found.next_token}).data)

    @extend_schema(
        operation_id="ForgetCapacityMarks",
        parameters=[ForgetQuery],
        responses={200: ForgottenSerializer, "default": ERROR},
    )
    def delete(self, request: Request) -> Response:
        """Forget every refusal of an instance type: the next search asks it again."""
        members = checked_query(request, ForgetQuery)
        count = marks.forget_type(request.user.account_id, members["InstanceType"], clock.now(), members.get("Zone", ""))
        return Response(ForgottenSerializer({"Forgotten": count}).data)


class CapacityMarkView(APIView):
    """One mark."""

    @extend_schema(operation_id="DeleteCapacityMark", responses={204: None, "default": ERROR})
    def delete(self, request: Request, mark_id: int) -> Response:
        """Forget one refusal: the next search asks the offering again."""
        marks.forget(request.user.account_id, mark_id, clock.now())
        return Response(status=204)

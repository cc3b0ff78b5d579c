"""`/api/v1/orphans`: instances that no endpoint has, what they cost, and what is to be done about them."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.orphans import services
from controlplane.orphans.models import Orphan, Sweep
from controlplane.orphans.states import OPEN, OrphanState, OrphanWish
from controlplane.rest.members import NEXT_TOKEN, PagingQuery, checked_query
from controlplane.rest.paging import page
from controlplane.rest.schema import ERROR


class OrphanSerializer(serializers.Serializer):
    """An instance that no endpoint has."""

    OrphanId = serializers.IntegerField(source="id")
    Provider = serializers.CharField(source="provider")
    ProviderId = serializers.CharField(source="provider_id", help_text="The provider's id of it.")
    InstanceType = serializers.CharField(source="instance_type")
    Zone = serializers.CharField(source="zone")
    Market = serializers.CharField(source="market")
    State = serializers.ChoiceField(source="state", choices=OrphanState.values)
    StateSince = serializers.DateTimeField(source="state_since")
    Reason = serializers.CharField(source="reason", allow_blank=True, help_text="Why it is in its state.")
    Wish = serializers.ChoiceField(
        source="wish",
        choices=OrphanWish.values,
        allow_blank=True,
        help_text="What an operator wants done and is about to be; blank: nothing.",
    )
    WishedBy = serializers.CharField(source="wished_by", allow_blank=True)
    Origin = serializers.CharField(source="origin", allow_blank=True, help_text="What is known of its launch.")
    EndpointName = serializers.CharField(source="endpoint_name", allow_blank=True)
    LaunchedAt = serializers.DateTimeField(source="launched_at")
    FoundAt = serializers.DateTimeField(source="found_at")
    SeenAt = serializers.DateTimeField(source="seen_at")
    EndAsks = serializers.IntegerField(source="asks", help_text="How often its provider was asked to end it.")
    HourlyPrice = serializers.FloatField(source="hourly_price", allow_null=True, help_text="US dollars; null: not known.")
    Dollars = serializers.SerializerMethodField(help_text="What it has cost since its launch; null: not known.")

    def get_Dollars(self, orphan: Orphan) -> float | None:
        return orphan.cost(clock.now())


class OrphanPage(serializers.Serializer):
    """A page of orphans, and whether the sweep that deals with them is held back."""

    Orphans = OrphanSerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text=NEXT_TOKEN)
    SweepHeldSince = serializers.DateTimeField(
        allow_null=True, help_text="Since when nothing is ended; null: it is not held."
    )
    SweepHeldWhy = serializers.CharField(allow_blank=True)


class OrphanQuery(PagingQuery):
    """Which orphans are meant."""

    State = serializers.ListField(
        child=serializers.ChoiceField(choices=OrphanState.values),
        required=False,
        help_text="Any of these; those that live and that nobody has when not given.",
    )
    EndpointName = serializers.CharField(required=False, max_length=63)


class ConfirmedSerializer(serializers.Serializer):
    """What was confirmed."""

    Confirmed = serializers.IntegerField(help_text="So many orphans are dealt with by the next sweep.")


class OrphansView(APIView):
    """The account's orphans."""

    @extend_schema(operation_id="ListOrphans", parameters=[OrphanQuery], responses={200: OrphanPage, "default": ERROR})
    def get(self, request: Request) -> Response:
        """List instances that no endpoint has, those last found first. The installation's account sees strangers too."""
        members, account_id = checked_query(request, OrphanQuery), request.user.account_id
        rows = services.shown_to(account_id).filter(state__in=members.get("State") or OPEN)
        if "EndpointName" in members:
            rows = rows.filter(endpoint_name=members["EndpointName"])
        found = page(rows, f"orphans {account_id}", members)
        sweep = Sweep.objects.filter(pk=1).first() or Sweep()
        answer = {
            "Orphans": found.rows,
            "NextToken": found.next_token,
            "SweepHeldSince": sweep.held_since,
            "SweepHeldWhy": sweep.held_why,
        }
        return Response(OrphanPage(answer).data)


class OrphanView(APIView):
    """One orphan."""

    @extend_schema(operation_id="DescribeOrphan", responses={200: OrphanSerializer, "default": ERROR})
    def get(self, request: Request, orphan_id: int) -> Response:
        """Tell how an orphan stands, and what became of a wish about it."""
        return Response(OrphanSerializer(services.get(request.user.account_id, orphan_id)).data)


class EndOrphanView(APIView):
    """Ending an orphan."""

    @extend_schema(operation_id="EndOrphan", request=None, responses={202: OrphanSerializer, "default": ERROR})
    def post(self, request: Request, orphan_id: int) -> Response:
        """Have an orphan ended now, whatever the sweep may do. That is done in a moment: describe it to see how."""
        row = services.ask_end(request.user.account_id, orphan_id, clock.now())
        return Response(OrphanSerializer(row).data, status=202)


class AdoptOrphanView(APIView):
    """Adopting an orphan."""

    @extend_schema(operation_id="AdoptOrphan", request=None, responses={202: OrphanSerializer, "default": ERROR})
    def post(self, request: Request, orphan_id: int) -> Response:
        """Have an orphan given back to the endpoint that lacks it. That is done in a moment: describe it to see how."""
        row = services.ask_adoption(request.user.account_id, orphan_id, clock.now())
        return Response(OrphanSerializer(row).data, status=202)


class ConfirmOrphansView(APIView):
    """Letting a sweep that is held back go on."""

    is_shared_by_accounts = True

    @extend_schema(operation_id="ConfirmOrphans", request=None, responses={200: ConfirmedSerializer, "default": ERROR})
    def post(self, request: Request) -> Response:
        """Say that what was found are orphans: a sweep that doubts its database, and ends nothing, goes on."""
        return Response(ConfirmedSerializer({"Confirmed": services.confirm_sweep(clock.now())}).data)

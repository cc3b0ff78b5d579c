"""`/api/v1/simulated-capacity`: rehearse a shortage, or its end, on the `simulated` or `local` provider."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.catalog.instance_types import checked
from controlplane.core import clock
from controlplane.observability import rehearsals
from controlplane.observability.models import CapacitySetting
from controlplane.observability.offers import Offer, offer_of
from controlplane.rest.caller import Caller
from controlplane.rest.members import NEXT_TOKEN, PagingQuery, checked_body, checked_query
from controlplane.rest.paging import page
from controlplane.rest.schema import ERROR


class FreeSlotsSerializer(serializers.Serializer):
    """How many more instances could be launched in one zone."""

    Zone = serializers.CharField()
    Free = serializers.IntegerField()


class SimulatedCapacitySerializer(serializers.Serializer):
    """How many instances of a type may live at once, as far as somebody has said so."""

    InstanceType = serializers.CharField()
    Slots = serializers.IntegerField(allow_null=True, help_text="Null: nobody has set it here.")
    SetAt = serializers.DateTimeField(allow_null=True)
    SetBy = serializers.CharField(allow_blank=True, help_text="Blank for other accounts than the installation's own.")
    AppliedAt = serializers.DateTimeField(allow_null=True, help_text="When the provider was told; null: it is about to be.")
    Failure = serializers.CharField(allow_blank=True, help_text="Why the provider would not hear of it.")
    FreeSlots = FreeSlotsSerializer(many=True, help_text="As the provider last said; none where it does not say.")


class SimulatedCapacityPage(serializers.Serializer):
    """A page of what was set."""

    Provider = serializers.CharField()
    IsSettable = serializers.BooleanField(help_text="Whether the provider's capacity is an operator's to set.")
    SeenAt = serializers.DateTimeField(allow_null=True, help_text="When the provider last said what is free.")
    SimulatedCapacity = SimulatedCapacitySerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text=NEXT_TOKEN)


class SimulatedCapacityRequest(serializers.Serializer):
    """The capacity that is wanted."""

    Slots = serializers.IntegerField(
        min_value=0, max_value=rehearsals.MOST_SLOTS, help_text="So many instances of the type may live at once; 0: none."
    )


class SimulatedCapacitiesView(APIView):
    """What was set."""

    @extend_schema(
        operation_id="ListSimulatedCapacity",
        parameters=[PagingQuery],
        responses={200: SimulatedCapacityPage, "default": ERROR},
    )
    def get(self, request: Request) -> Response:
        """List the instance types whose capacity somebody has set, with what is free of each."""
        members, provider = checked_query(request, PagingQuery), settings.HEADRACE.provider
        found = page(rehearsals.listed(provider), "simulated-capacity", members, key="instance_type", latest=False)
        offer = offer_of(provider)
        answer = {
            "Provider": provider,
            "IsSettable": provider in rehearsals.REHEARSING,
            "SeenAt": offer.seen_at if offer else None,
            "SimulatedCapacity": [_told(row.instance_type, row, offer, request.user) for row in found.rows],
            "NextToken": found.next_token,
        }
        return Response(SimulatedCapacityPage(answer).data)


class SimulatedCapacityView(APIView):
    """The capacity of one type."""

    is_shared_by_accounts = True

    @extend_schema(operation_id="DescribeSimulatedCapacity", responses={200: SimulatedCapacitySerializer, "default": ERROR})
    def get(self, request: Request, instance_type: str) -> Response:
        """Tell what the capacity of a type was set to, and what is free of it."""
        provider = settings.HEADRACE.provider
        row = rehearsals.listed(provider).filter(instance_type=checked(instance_type)).first()
        return _answer(instance_type, row, request.user)

    @extend_schema(
        operation_id="SetSimulatedCapacity",
        request=SimulatedCapacityRequest,
        responses={202: SimulatedCapacitySerializer, "default": ERROR},
    )
    def put(self, request: Request, instance_type: str) -> Response:
        """Let so many instances of a type live at once; those that run are left alone, its capacity marks are forgotten.

        The provider is told in a moment: AppliedAt says when it was.
        """
        slots, name = checked_body(request, SimulatedCapacityRequest)["Slots"], checked(instance_type)
        account_id, provider = request.user.account_id, settings.HEADRACE.provider
        row = rehearsals.want(provider, name, slots, account_id=account_id, now=clock.now())
        return _answer(name, row, request.user, status=202)


def _answer(name: str, row: CapacitySetting | None, caller: Caller, status: int = 200) -> Response:
    told = _told(name, row, offer_of(settings.HEADRACE.provider), caller)
    return Response(SimulatedCapacitySerializer(told).data, status=status)


def _told(name: str, row: CapacitySetting | None, offer: Offer | None, caller: Caller) -> Mapping[str, Any]:
    """As the caller may know it: who operates the installation is not a tenant's to find out."""
    return {
        "InstanceType": name,
        "Slots": row and row.slots,
        "SetAt": row and row.set_at,
        "SetBy": row.set_by if row and caller.is_installation else "",
        "AppliedAt": row and row.applied_at,
        "Failure": row.failure if row else "",
        "FreeSlots": _free(name, offer),
    }


def _free(name: str, offer: Offer | None) -> list[Mapping[str, Any]]:
    if offer is None or offer.otherwise is None:
        return []
    return [{"Zone": zone, "Free": offer.free.get((zone, name), offer.otherwise)} for zone in offer.zones]

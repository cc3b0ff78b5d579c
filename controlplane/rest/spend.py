"""`/api/v1/spend`: what the account's endpoints have cost so far, by pool."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.selectors import stays_by_endpoint
from controlplane.fleet.spend import by_pool, total
from controlplane.rest.members import NEXT_TOKEN, PagingQuery, checked_query
from controlplane.rest.paging import page
from controlplane.rest.rungs import PoolSpendSerializer, SpendSerializer
from controlplane.rest.schema import ERROR


class EndpointSpendSerializer(serializers.Serializer):
    """What one endpoint has cost since its creation."""

    EndpointName = serializers.CharField()
    Spend = SpendSerializer()
    SpendByPool = PoolSpendSerializer(many=True)


class SpendPage(serializers.Serializer):
    """What a page of endpoints has cost, and all of the page together."""

    Endpoints = EndpointSpendSerializer(many=True)
    PageSpend = SpendSerializer(help_text="Of the endpoints of this page together.")
    NextToken = serializers.CharField(allow_null=True, help_text=NEXT_TOKEN)


class SpendQuery(PagingQuery):
    """Whose spend is meant."""

    EndpointName = serializers.CharField(required=False, max_length=63, help_text="This endpoint's alone.")


class SpendView(APIView):
    """The account's spend."""

    @extend_schema(operation_id="ListSpend", parameters=[SpendQuery], responses={200: SpendPage, "default": ERROR})
    def get(self, request: Request) -> Response:
        """Tell what endpoints have cost so far, boot and drain included, by variant, instance type and market.

        What has no known price is counted in hours alone; an endpoint that is deleted is not told of.
        """
        members, account_id = checked_query(request, SpendQuery), request.user.account_id
        rows = Endpoint.objects.filter(account_id=account_id)
        if "EndpointName" in members:
            rows = rows.filter(name__iexact=members["EndpointName"])
        found = page(rows, f"spend {account_id}", members, key="name", latest=False)
        now = clock.now()
        stays = stays_by_endpoint([row.id for row in found.rows])
        told = [(row.name, by_pool(stays[row.id], now)) for row in found.rows]
        answer = {
            "Endpoints": [{"EndpointName": name, "Spend": total(lines), "SpendByPool": lines} for name, lines in told],
            "PageSpend": total(line for _, lines in told for line in lines),
            "NextToken": found.next_token,
        }
        return Response(SpendPage(answer).data)

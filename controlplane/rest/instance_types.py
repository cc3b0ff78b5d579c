"""`/api/v1/instance-types`: the types that may be named, and what an hour of each costs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.catalog import price_overrides
from controlplane.catalog.instance_types import checked, known_instance_types, operator_instance_types
from controlplane.catalog.prices import PriceSource, overrides, sourced_price
from controlplane.core import clock
from controlplane.core.offerings import MARKETS, ON_DEMAND
from controlplane.rest.members import NEXT_TOKEN, PagingQuery, checked_body, checked_query
from controlplane.rest.paging import page_of
from controlplane.rest.schema import ERROR


@dataclass(frozen=True)
class Price:
    """What an hour costs in one market."""

    market: str
    hourly_price: float | None
    source: str


@dataclass(frozen=True)
class InstanceType:
    """A type that may be named."""

    name: str
    is_operators: bool
    prices: tuple[Price, ...]


class PriceSerializer(serializers.Serializer):
    """What an hour of a type costs in one market, and who says so."""

    Market = serializers.ChoiceField(source="market", choices=MARKETS)
    HourlyPrice = serializers.FloatField(source="hourly_price", allow_null=True, help_text="US dollars; null: not known.")
    PriceSource = serializers.ChoiceField(
        source="source",
        choices=[source.value for source in PriceSource],
        help_text="operator: set here; setting: HEADRACE_PRICES; list: the list that comes with Headrace.",
    )


class InstanceTypeSummarySerializer(serializers.Serializer):
    """An instance type."""

    InstanceType = serializers.CharField(source="name")
    IsOperatorDefined = serializers.BooleanField(source="is_operators", help_text="Whether a capacity setting names it.")
    Prices = PriceSerializer(source="prices", many=True)


class InstanceTypePage(serializers.Serializer):
    """A page of instance types."""

    InstanceTypes = InstanceTypeSummarySerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text=NEXT_TOKEN)


class InstanceTypeQuery(PagingQuery):
    """Which types are meant."""

    NameContains = serializers.CharField(required=False, max_length=64)
    HasPrice = serializers.BooleanField(required=False, help_text="Only those with a known price, or only those without.")


class PriceRequest(serializers.Serializer):
    """What an hour is to be taken to cost."""

    HourlyPrice = serializers.FloatField(
        min_value=0, max_value=price_overrides.MOST_DOLLARS, help_text="US dollars an hour, of one instance."
    )
    Market = serializers.ChoiceField(choices=MARKETS, default=ON_DEMAND)


class MarketQuery(serializers.Serializer):
    """Which price is meant."""

    Market = serializers.ChoiceField(choices=MARKETS, default=ON_DEMAND)


class InstanceTypesView(APIView):
    """All types."""

    @extend_schema(
        operation_id="ListInstanceTypes",
        parameters=[InstanceTypeQuery],
        responses={200: InstanceTypePage, "default": ERROR},
    )
    def get(self, request: Request) -> Response:
        """List the instance types that may be named, with their prices, by name."""
        members = checked_query(request, InstanceTypeQuery)
        own = overrides()
        part = members.get("NameContains", "")
        types = [_type(name, own) for name in sorted(known_instance_types()) if part in name]
        if "HasPrice" in members:
            types = [each for each in types if _has_price(each) == members["HasPrice"]]
        found = page_of(types, "instance-types", members, lambda each: each.name)
        return Response(InstanceTypePage({"InstanceTypes": found.rows, "NextToken": found.next_token}).data)


class InstanceTypeView(APIView):
    """One type."""

    @extend_schema(operation_id="DescribeInstanceType", responses={200: InstanceTypeSummarySerializer, "default": ERROR})
    def get(self, request: Request, instance_type: str) -> Response:
        """Tell what is known of an instance type."""
        return Response(InstanceTypeSummarySerializer(_type(checked(instance_type), overrides())).data)


class InstanceTypePriceView(APIView):
    """The price of one type."""

    is_shared_by_accounts = True

    @extend_schema(
        operation_id="SetInstanceTypePrice",
        request=PriceRequest,
        responses={200: InstanceTypeSummarySerializer, "default": ERROR},
    )
    def put(self, request: Request, instance_type: str) -> Response:
        """Set what an hour of a type costs, for launches from now on: it wins over HEADRACE_PRICES and the list."""
        members, name = checked_body(request, PriceRequest), checked(instance_type)
        price_overrides.set_price(
            name, members["Market"], members["HourlyPrice"], account_id=request.user.account_id, now=clock.now()
        )
        return Response(InstanceTypeSummarySerializer(_type(name, overrides())).data)

    @extend_schema(operation_id="DropInstanceTypePrice", parameters=[MarketQuery], responses={204: None, "default": ERROR})
    def delete(self, request: Request, instance_type: str) -> Response:
        """Take back a price that was set here: the settings and the list hold again."""
        market = checked_query(request, MarketQuery)["Market"]
        price_overrides.drop_price(checked(instance_type), market, account_id=request.user.account_id, now=clock.now())
        return Response(status=204)


def _type(name: str, own: Mapping[str, float]) -> InstanceType:
    prices = tuple(Price(market, *sourced_price(own, name, market)) for market in MARKETS)
    return InstanceType(name, name in operator_instance_types(os.environ), prices)


def _has_price(each: InstanceType) -> bool:
    return any(price.hourly_price is not None for price in each.prices)

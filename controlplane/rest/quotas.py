"""`/api/v1/quotas`: how many instances the account may want at once, by type and in all."""

from dataclasses import dataclass

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.catalog import limits
from controlplane.catalog.instance_types import checked
from controlplane.catalog.quotas import ALL, Usage
from controlplane.core import clock
from controlplane.core.errors import ResourceNotFound
from controlplane.endpoints.usage import usage_of
from controlplane.rest.members import NEXT_TOKEN, PagingQuery, checked_body, checked_query
from controlplane.rest.paging import page_of
from controlplane.rest.schema import ERROR

TOTAL = "total"
"""What the quota of all types together is called here, where a `*` would stand in a path."""

MOST = 1_000_000


@dataclass(frozen=True)
class StandingQuota:
    """A quota and how much of it is used."""

    name: str
    limit: int
    used: int
    is_own: bool


class QuotaSerializer(serializers.Serializer):
    """A quota."""

    QuotaName = serializers.CharField(source="name", help_text=f"An instance type, or {TOTAL} for all types together.")
    Limit = serializers.IntegerField(source="limit", help_text="Instances that may be wanted at once.")
    Used = serializers.IntegerField(
        source="used", help_text="Those that serve from this type; all that are wanted, for total."
    )
    IsOwn = serializers.BooleanField(
        source="is_own", help_text="Set for this account; else HEADRACE_QUOTAS has it for all."
    )


class QuotaPage(serializers.Serializer):
    """A page of quotas."""

    Quotas = QuotaSerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text=NEXT_TOKEN)
    OpenInstances = serializers.IntegerField(
        help_text="Instances that are wanted and not there yet: they count wherever they fit best."
    )


class QuotaRequest(serializers.Serializer):
    """The quota that is wanted."""

    Limit = serializers.IntegerField(min_value=0, max_value=MOST, help_text="Instances that may be wanted at once.")


class QuotasView(APIView):
    """The account's quotas."""

    @extend_schema(operation_id="ListQuotas", parameters=[PagingQuery], responses={200: QuotaPage, "default": ERROR})
    def get(self, request: Request) -> Response:
        """List the account's quotas with what is used of each, by name. What is not listed has no limit."""
        members, account_id = checked_query(request, PagingQuery), request.user.account_id
        usage = usage_of(account_id, {})
        found = page_of(_standing(account_id, usage), f"quotas {account_id}", members, lambda each: each.name)
        answer = {
            "Quotas": found.rows,
            "NextToken": found.next_token,
            "OpenInstances": sum(demand.count for demand in usage.open),
        }
        return Response(QuotaPage(answer).data)


class QuotaView(APIView):
    """One quota of the account."""

    is_shared_by_accounts = True

    @extend_schema(operation_id="DescribeQuota", responses={200: QuotaSerializer, "default": ERROR})
    def get(self, request: Request, name: str) -> Response:
        """Tell a quota of the account and how much of it is used."""
        return Response(QuotaSerializer(_quota(request.user.account_id, name)).data)

    @extend_schema(operation_id="SetQuota", request=QuotaRequest, responses={200: QuotaSerializer, "default": ERROR})
    def put(self, request: Request, name: str) -> Response:
        """Limit how many instances the account may want at once. Those it wants already stay.

        An administrator of the installation names another account in the header Headrace-Account.
        """
        limit, account_id = checked_body(request, QuotaRequest)["Limit"], request.user.account_id
        limits.set_limit(account_id, _stored(name), limit, now=clock.now())
        return Response(QuotaSerializer(_quota(account_id, name)).data)

    @extend_schema(operation_id="DropQuota", responses={204: None, "default": ERROR})
    def delete(self, request: Request, name: str) -> Response:
        """Drop a quota that was set for the account: HEADRACE_QUOTAS holds again, or no limit."""
        if not limits.drop_limit(request.user.account_id, _stored(name), now=clock.now()):
            raise ResourceNotFound(f"The account has no quota of its own for {name}.")
        return Response(status=204)


def _quota(account_id: str, name: str) -> StandingQuota:
    _stored(name)
    found = [each for each in _standing(account_id, usage_of(account_id, {})) if each.name == name]
    if not found:
        raise ResourceNotFound(f"The account has no quota for {name}: no limit.")
    return found[0]


def _standing(account_id: str, usage: Usage) -> list[StandingQuota]:
    own = limits.own_limits(account_id)
    found = [
        StandingQuota(
            TOTAL if name == ALL else name, limit, usage.total if name == ALL else usage.placed.get(name, 0), name in own
        )
        for name, limit in limits.limits_of(account_id).items()
    ]
    return sorted(found, key=lambda each: each.name)


def _stored(name: str) -> str:
    return ALL if name == TOTAL else checked(name)

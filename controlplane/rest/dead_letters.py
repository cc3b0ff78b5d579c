"""`/api/v1/dead-letters`: requests that failed or expired, counted by class, and put back class by class."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.invocations import search, services
from controlplane.invocations.search import DEAD_STATES
from controlplane.rest.async_filters import (
    ClassRedriveRequest,
    DeadLetterPageQuery,
    DeadLetterQuery,
    filter_of,
    time_to_live_of,
)
from controlplane.rest.async_requests import AsyncRequestPage
from controlplane.rest.members import checked_body, checked_query
from controlplane.rest.schema import ERROR


class DeadLetterCountSerializer(serializers.Serializer):
    """How many of an endpoint's requests ended in the same way."""

    EndpointName = serializers.CharField(source="endpoint_name")
    Status = serializers.CharField(source="state", help_text="failed or expired.")
    FailureKind = serializers.CharField(source="failure_kind", allow_blank=True)
    Count = serializers.IntegerField(source="count")
    OldestAcceptedAt = serializers.DateTimeField(source="oldest_at")


class DeadLetterCounts(serializers.Serializer):
    """All classes that have a dead letter, by endpoint, the largest first."""

    DeadLetterCounts = DeadLetterCountSerializer(many=True)


class RedrivenSerializer(serializers.Serializer):
    """What came of putting a class back."""

    Matching = serializers.IntegerField(source="matching", help_text="Dead letters of the class before.")
    Redriven = serializers.IntegerField(source="redriven", help_text="Put back; in a dry run: that would be.")
    Skipped = serializers.IntegerField(
        source="skipped",
        help_text="Met and left: of an earlier endpoint of the name, without payload, or taken by another at that moment.",
    )


class DeadLettersView(APIView):
    """All dead letters of the account."""

    @extend_schema(
        operation_id="ListDeadLetters",
        parameters=[DeadLetterPageQuery],
        responses={200: AsyncRequestPage, "default": ERROR},
    )
    def get(self, request: Request) -> Response:
        """List failed and expired requests with their last error, the oldest first."""
        members = checked_query(request, DeadLetterPageQuery)
        which = filter_of(request.user.account_id, members, states=DEAD_STATES)
        page = search.find(which, limit=members["MaxResults"], oldest_first=True, token=members.get("NextToken", ""))
        return Response(AsyncRequestPage({"AsyncRequests": page.rows, "NextToken": page.next_token}).data)


class DeadLetterCountsView(APIView):
    """Dead letters by class."""

    @extend_schema(
        operation_id="CountDeadLetters", parameters=[DeadLetterQuery], responses={200: DeadLetterCounts, "default": ERROR}
    )
    def get(self, request: Request) -> Response:
        """Count failed and expired requests by endpoint and kind of failure."""
        which = filter_of(request.user.account_id, checked_query(request, DeadLetterQuery), states=DEAD_STATES)
        return Response(DeadLetterCounts({"DeadLetterCounts": search.counts(which)}).data)


class EndpointRedrivesView(APIView):
    """Putting back a class of dead letters of one endpoint."""

    @extend_schema(
        operation_id="RedriveDeadLetters",
        request=ClassRedriveRequest,
        responses={200: RedrivenSerializer, "default": ERROR},
    )
    def post(self, request: Request, name: str) -> Response:
        """Put failed or expired requests of an endpoint back into its queue, the oldest first, up to a limit.

        Call it again for more. Requests of an earlier endpoint of the same name are left alone.
        """
        members = checked_body(request, ClassRedriveRequest)
        done = services.redrive_class(
            filter_of(request.user.account_id, members, endpoint_name=name),
            limit=members["Limit"],
            actor=request.user.actor,
            now=clock.now(),
            time_to_live=time_to_live_of(members),
            dry_run=members["DryRun"],
        )
        return Response(RedrivenSerializer(done).data)

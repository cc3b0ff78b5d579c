"""`/api/v1/async-requests`: asynchronous requests, found, told step by step, put back, cancelled."""

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.invocations import search, services, timeline
from controlplane.invocations.models import AsyncInvocation, FailureKind, InvocationState
from controlplane.rest.async_filters import (
    PageQuery,
    RedriveRequest,
    filter_of,
    time_to_live_of,
)
from controlplane.rest.members import checked_body, checked_query
from controlplane.rest.schema import ERROR


class AsyncRequestSerializer(serializers.Serializer):
    """One asynchronous request and how it stands."""

    RequestId = serializers.UUIDField(
        source="id", help_text="Headrace's own id; an InferenceId may be used more than once."
    )
    InferenceId = serializers.CharField(source="inference_id")
    EndpointName = serializers.CharField(source="endpoint_name")
    VariantName = serializers.CharField(source="variant_name", allow_blank=True)
    Status = serializers.ChoiceField(source="state", choices=InvocationState.values)
    FailureKind = serializers.ChoiceField(
        source="failure_kind",
        choices=FailureKind.values,
        allow_blank=True,
        help_text="The class of the failure. Beside a Status that has not ended it is decided, and about to be told.",
    )
    FailureReason = serializers.CharField(source="outcome_text", allow_blank=True, help_text="The last error, in words.")
    Attempts = serializers.IntegerField(
        source="attempts",
        help_text="Times a worker took it, to run it or to tell its end, since it was accepted or redriven.",
    )
    Redrives = serializers.IntegerField(source="redrives")
    AcceptedAt = serializers.DateTimeField(source="accepted_at")
    ExpiresAt = serializers.DateTimeField(source="expires_at", help_text="When its time in the queue is over.")
    EndedAt = serializers.DateTimeField(source="ended_at", allow_null=True)
    ContentType = serializers.CharField(source="content_type", allow_blank=True)
    InputLocation = serializers.CharField(source="input_location", allow_blank=True, help_text="Blank: sent inline.")
    OutputLocation = serializers.CharField(source="output_location")
    FailureLocation = serializers.CharField(source="failure_location", allow_blank=True)


class AsyncRequestPage(serializers.Serializer):
    """A page of requests."""

    AsyncRequests = AsyncRequestSerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text="Gives the next page; null on the last.")


class TimelineStepSerializer(serializers.Serializer):
    """One step, for machines and in words."""

    At = serializers.DateTimeField(source="at")
    Step = serializers.CharField(source="step", help_text="accepted, claimed, sent, answered, stored, notified, and so on.")
    Attempt = serializers.IntegerField(source="attempt", help_text="0: before the first.")
    Detail = serializers.CharField(source="detail", allow_blank=True)
    Sentence = serializers.CharField(source="sentence")


class AsyncRequestStorySerializer(serializers.Serializer):
    """One request with its timeline."""

    AsyncRequest = AsyncRequestSerializer(source="request")
    NextTryAt = serializers.DateTimeField(source="next_try_at", allow_null=True, help_text="Null unless it is queued.")
    Timeline = TimelineStepSerializer(source="timeline", many=True)
    TimelineHasGap = serializers.BooleanField(source="has_gap", help_text="Steps of its middle may have been left out.")


class AsyncRequestsView(APIView):
    """All requests of the account."""

    @extend_schema(
        operation_id="ListAsyncRequests", parameters=[PageQuery], responses={200: AsyncRequestPage, "default": ERROR}
    )
    def get(self, request: Request) -> Response:
        """Find requests by endpoint, status, kind of failure, InferenceId and time of acceptance; the latest come first."""
        members = checked_query(request, PageQuery)
        page = search.find(
            filter_of(request.user.account_id, members),
            limit=members["MaxResults"],
            oldest_first=members["SortOrder"] == "Ascending",
            token=members.get("NextToken", ""),
        )
        return Response(AsyncRequestPage({"AsyncRequests": page.rows, "NextToken": page.next_token}).data)


class AsyncRequestView(APIView):
    """One request."""

    @extend_schema(operation_id="DescribeAsyncRequest", responses={200: AsyncRequestStorySerializer, "default": ERROR})
    def get(self, request: Request, request_id: UUID) -> Response:
        """Tell how a request stands and everything that happened to it, each attempt with its error."""
        return _story(services.get_request(request.user.account_id, request_id))


class AsyncRequestRedriveView(APIView):
    """Putting one request back."""

    @extend_schema(
        operation_id="RedriveAsyncRequest",
        request=RedriveRequest,
        responses={200: AsyncRequestStorySerializer, "default": ERROR},
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Put a failed or expired request back into the queue: new attempts, a new time to live, the same locations.

        Its old failure object is removed first; its answer goes to the output location that it always had.
        """
        members = checked_body(request, RedriveRequest)
        caller, now = request.user, clock.now()
        row = services.redrive(
            caller.account_id, request_id, actor=caller.actor, now=now, time_to_live=time_to_live_of(members)
        )
        return _story(row)


class AsyncRequestCancelView(APIView):
    """Cancelling one request."""

    @extend_schema(
        operation_id="CancelAsyncRequest", request=None, responses={200: AsyncRequestStorySerializer, "default": ERROR}
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Cancel a request that waits or runs: it ends as cancelled, told as a failure is, and is run no more.

        It is too late once its answer is being stored. A model that works on it is disconnected from.
        """
        caller = request.user
        return _story(services.cancel(caller.account_id, request_id, actor=caller.actor, now=clock.now()))


def _story(row: AsyncInvocation) -> Response:
    story = {
        "request": row,
        "next_try_at": row.due_at if row.state == InvocationState.QUEUED else None,
        "timeline": timeline.tell(row.accepted_at, row.timeline),
        "has_gap": timeline.has_gap(row.timeline),
    }
    return Response(AsyncRequestStorySerializer(story).data)

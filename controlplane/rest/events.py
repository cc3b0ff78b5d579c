"""`/api/v1/events` and `/api/v1/endpoints/{name}/events`: what happened in the account, and who did it."""

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core.errors import ValidationException, not_found
from controlplane.core.ids import Arn
from controlplane.endpoints.models import Endpoint
from controlplane.observability.models import Event
from controlplane.observability.stories import story_of
from controlplane.rest.members import PAGE_DEFAULT, PAGE_LIMIT, PagingQuery, checked_query
from controlplane.rest.paging import page
from controlplane.rest.schema import ERROR

_LARGEST_ID = 2**63 - 1


class EventSerializer(serializers.Serializer):
    """One thing that happened or was decided, in one sentence."""

    At = serializers.DateTimeField(source="at")
    Reason = serializers.CharField(source="reason", help_text="A word for machines.")
    Sentence = serializers.CharField(source="sentence")
    Actor = serializers.CharField(
        source="actor", help_text="Who did it: `key AKIA...`, `token ci`, `operator alice`; `headrace` for Headrace itself."
    )
    SubjectKind = serializers.CharField(source="subject_kind", help_text="endpoint, api-token, quota and so on.")
    SubjectName = serializers.CharField(source="subject_name")
    Detail = serializers.DictField(source="detail", help_text="The inputs of the rule that fired.")


class EventList(serializers.Serializer):
    """A page of events, the latest first."""

    Events = EventSerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text="Gives the page of earlier events; null on the last.")


class EventQuery(PagingQuery):
    """Which events are meant."""

    SubjectName = serializers.CharField(required=False, max_length=63, help_text="As it was spelt when it happened.")
    SubjectKind = serializers.CharField(required=False, max_length=32)
    Reason = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, max_length=50, help_text="Any of these."
    )
    Actor = serializers.CharField(required=False, max_length=160)
    Since = serializers.DateTimeField(required=False, help_text="Inclusive; ISO 8601.")
    Before = serializers.DateTimeField(required=False, help_text="Exclusive; ISO 8601.")


FILTERS = {
    "SubjectName": "subject_name",
    "SubjectKind": "subject_kind",
    "Reason": "reason__in",
    "Actor": "actor",
    "Since": "at__gte",
    "Before": "at__lt",
}

PAGING = [
    OpenApiParameter("MaxResults", int, description=f"Events of a page: 1 to {PAGE_LIMIT}, {PAGE_DEFAULT} when not given."),
    OpenApiParameter("NextToken", str, description="From the page before."),
]


class EventsView(APIView):
    """The events of the account."""

    @extend_schema(operation_id="ListEvents", parameters=[EventQuery], responses={200: EventList, "default": ERROR})
    def get(self, request: Request) -> Response:
        """List what happened in the account and who did it, the latest first."""
        members, account_id = checked_query(request, EventQuery), request.user.account_id
        filters = {lookup: members[name] for name, lookup in FILTERS.items() if name in members}
        rows = Event.objects.filter(account_id=account_id, **filters)
        found = page(rows, f"events {account_id}", members)
        return Response(EventList({"Events": found.rows, "NextToken": found.next_token}).data)


class EndpointEventsView(APIView):
    """The events of one endpoint."""

    @extend_schema(operation_id="ListEndpointEvents", parameters=PAGING, responses={200: EventList, "default": ERROR})
    def get(self, request: Request, name: str) -> Response:
        """List what happened to an endpoint, the latest first; of one that is gone, too."""
        limit = _number(request, "MaxResults", PAGE_DEFAULT, PAGE_LIMIT)
        before = _number(request, "NextToken", _LARGEST_ID, _LARGEST_ID)
        account_id = request.user.account_id
        row = Endpoint.objects.filter(account_id=account_id, name=name).first()
        story = story_of(account_id, name, row.id if row else None)
        if not story.exists():
            raise not_found("endpoint", str(Arn(settings.HEADRACE.region, account_id, "endpoint", name)))
        rows = list(story.filter(id__lt=before).order_by("-id")[: limit + 1])
        token = str(rows[limit - 1].id) if len(rows) > limit else None
        return Response(EventList({"Events": rows[:limit], "NextToken": token}).data)


def _number(request: Request, name: str, default: int, limit: int) -> int:
    """A whole number of the query, from 1 to `limit`."""
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or not 1 <= int(text) <= limit:
        raise ValidationException(f"{name} must be a whole number from 1 to {limit}, not {text[:64]!r}.")
    return int(text)

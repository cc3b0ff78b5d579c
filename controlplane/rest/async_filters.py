"""What requests about asynchronous requests may say: filters, pages, and new times to live."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rest_framework import serializers

from controlplane.invocations.models import FailureKind, InvocationState
from controlplane.invocations.search import Filter
from controlplane.invocations.services import REDRIVE_DEFAULT, REDRIVE_LIMIT, TIME_TO_LIVE_SECONDS
from controlplane.rest.members import PagingQuery

ENDPOINT_NAME = r"^[a-zA-Z0-9-]{1,63}$"


class TimesQuery(serializers.Serializer):
    """When requests were accepted."""

    AcceptedAfter = serializers.DateTimeField(required=False, help_text="Inclusive; ISO 8601.")
    AcceptedBefore = serializers.DateTimeField(required=False, help_text="Exclusive; ISO 8601.")


class DeadLetterQuery(TimesQuery):
    """Which failed and expired requests are meant."""

    EndpointName = serializers.RegexField(ENDPOINT_NAME, required=False)
    FailureKind = serializers.ListField(
        child=serializers.ChoiceField(choices=FailureKind.values), required=False, help_text="Any of these kinds."
    )


class FilterQuery(DeadLetterQuery):
    """Which requests are meant."""

    Status = serializers.ListField(
        child=serializers.ChoiceField(choices=InvocationState.values), required=False, help_text="Any of these."
    )
    InferenceId = serializers.CharField(required=False, max_length=64)


class PageQuery(PagingQuery, FilterQuery):
    """A page of requests."""

    SortOrder = serializers.ChoiceField(choices=["Ascending", "Descending"], default="Descending")


class DeadLetterPageQuery(PagingQuery, DeadLetterQuery):
    """A page of failed and expired requests."""


class RedriveRequest(serializers.Serializer):
    """How a request is put back."""

    RequestTTLSeconds = serializers.IntegerField(
        required=False,
        min_value=TIME_TO_LIVE_SECONDS[0],
        max_value=TIME_TO_LIVE_SECONDS[1],
        help_text="How long it may wait in the queue from now on; as long as at first when not given.",
    )


class ClassRedriveRequest(RedriveRequest, TimesQuery):
    """Which dead letters of an endpoint are put back, and how."""

    Status = serializers.ListField(
        child=serializers.ChoiceField(choices=InvocationState.values),
        required=False,
        max_length=len(InvocationState.values),
        help_text="failed, expired or both; both when not given.",
    )
    FailureKind = serializers.ListField(
        child=serializers.ChoiceField(choices=FailureKind.values),
        required=False,
        max_length=len(FailureKind.values),
        help_text="Any of these kinds; all when not given.",
    )
    Limit = serializers.IntegerField(default=REDRIVE_DEFAULT, min_value=1, max_value=REDRIVE_LIMIT)
    DryRun = serializers.BooleanField(default=False, help_text="Count only; nothing is changed.")


def filter_of(account_id: str, members: Mapping[str, Any], **given: Any) -> Filter:
    """The filter that these members describe, for one account."""
    named = {
        "endpoint_name": members.get("EndpointName", ""),
        "states": tuple(members.get("Status", ())),
        "failure_kinds": tuple(members.get("FailureKind", ())),
        "inference_id": members.get("InferenceId", ""),
        "accepted_after": members.get("AcceptedAfter"),
        "accepted_before": members.get("AcceptedBefore"),
    }
    return Filter(account_id, **{**named, **given})


def time_to_live_of(members: Mapping[str, Any]) -> timedelta | None:
    """The time to live that is asked for, if one is."""
    seconds = members.get("RequestTTLSeconds")
    return None if seconds is None else timedelta(seconds=seconds)

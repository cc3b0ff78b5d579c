"""The paths under `/api/v1/`."""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularJSONAPIView

from controlplane.rest.async_requests import (
    AsyncRequestCancelView,
    AsyncRequestRedriveView,
    AsyncRequestsView,
    AsyncRequestView,
)
from controlplane.rest.dead_letters import DeadLetterCountsView, DeadLettersView, EndpointRedrivesView
from controlplane.rest.events import EndpointEventsView
from controlplane.rest.explanations import ExplanationView
from controlplane.rest.marks import CapacityMarksView, CapacityMarkView
from controlplane.rest.previews import PlacementPreviewsView

NAME = "(?P<name>[a-zA-Z0-9-]{1,63})"
"""What can be a resource's name; nothing else reaches the database."""

urlpatterns = [
    path("placement-previews", PlacementPreviewsView.as_view()),
    re_path(rf"^endpoints/{NAME}/explanation$", ExplanationView.as_view()),
    re_path(rf"^endpoints/{NAME}/events$", EndpointEventsView.as_view()),
    re_path(rf"^endpoints/{NAME}/redrives$", EndpointRedrivesView.as_view()),
    path("async-requests", AsyncRequestsView.as_view()),
    path("async-requests/<uuid:request_id>", AsyncRequestView.as_view()),
    path("async-requests/<uuid:request_id>/redrive", AsyncRequestRedriveView.as_view()),
    path("async-requests/<uuid:request_id>/cancel", AsyncRequestCancelView.as_view()),
    path("dead-letters", DeadLettersView.as_view()),
    path("dead-letter-counts", DeadLetterCountsView.as_view()),
    path("capacity-marks", CapacityMarksView.as_view()),
    path("capacity-marks/<int:mark_id>", CapacityMarkView.as_view()),
    # Anybody may know what can be asked.
    path("schema/", SpectacularJSONAPIView.as_view(authentication_classes=[], permission_classes=[])),
]

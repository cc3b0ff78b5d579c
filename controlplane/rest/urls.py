"""The paths under `/api/v1/`."""

from django.urls import path, re_path

from controlplane.rest.async_outputs import AsyncRequestOutputView
from controlplane.rest.async_requests import (
    AsyncRequestCancelView,
    AsyncRequestRedriveView,
    AsyncRequestsView,
    AsyncRequestView,
)
from controlplane.rest.coming_home import PauseComingHomeView, ResumeComingHomeView
from controlplane.rest.dead_letters import DeadLetterCountsView, DeadLettersView, EndpointRedrivesView
from controlplane.rest.docs import OPEN, DocsPage, DocumentView
from controlplane.rest.door import url_patterns
from controlplane.rest.events import EndpointEventsView
from controlplane.rest.explanations import ExplanationView
from controlplane.rest.instances import DrainInstanceView, InstancesView, ReplaceInstanceView
from controlplane.rest.marks import CapacityMarksView, CapacityMarkView
from controlplane.rest.own_urls import urlpatterns as own_patterns
from controlplane.rest.previews import PlacementPreviewsView

NAME = "(?P<name>[a-zA-Z0-9-]{1,63})"
"""What can be a resource's name; nothing else reaches the database."""

INSTANCE = "(?P<instance_id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
"""An instance's id."""

urlpatterns = [
    path("placement-previews", PlacementPreviewsView.as_view()),
    re_path(rf"^endpoints/{NAME}/explanation$", ExplanationView.as_view()),
    re_path(rf"^endpoints/{NAME}/events$", EndpointEventsView.as_view()),
    re_path(rf"^endpoints/{NAME}/redrives$", EndpointRedrivesView.as_view()),
    re_path(rf"^endpoints/{NAME}/instances$", InstancesView.as_view()),
    re_path(rf"^endpoints/{NAME}/instances/{INSTANCE}/drain$", DrainInstanceView.as_view()),
    re_path(rf"^endpoints/{NAME}/instances/{INSTANCE}/replace$", ReplaceInstanceView.as_view()),
    re_path(rf"^endpoints/{NAME}/coming-home/pause$", PauseComingHomeView.as_view()),
    re_path(rf"^endpoints/{NAME}/coming-home/resume$", ResumeComingHomeView.as_view()),
    path("async-requests", AsyncRequestsView.as_view()),
    path("async-requests/<uuid:request_id>", AsyncRequestView.as_view()),
    path("async-requests/<uuid:request_id>/output", AsyncRequestOutputView.as_view()),
    path("async-requests/<uuid:request_id>/redrive", AsyncRequestRedriveView.as_view()),
    path("async-requests/<uuid:request_id>/cancel", AsyncRequestCancelView.as_view()),
    path("dead-letters", DeadLettersView.as_view()),
    path("dead-letter-counts", DeadLetterCountsView.as_view()),
    path("capacity-marks", CapacityMarksView.as_view()),
    path("capacity-marks/<int:mark_id>", CapacityMarkView.as_view()),
    *own_patterns,
    # Anybody may know what can be asked.
    path("schema/", DocumentView.as_view(**OPEN)),
    path("docs/", DocsPage.as_view(template_name="rest/swagger.html")),
    path("redoc/", DocsPage.as_view(template_name="rest/redoc.html")),
    # What the AWS door has, as resources.
    *url_patterns(),
]

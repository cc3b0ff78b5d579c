"""`/api/v1/`: where an operator who looks around begins."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

LISTS = (
    "endpoints",
    "endpoint-configs",
    "models",
    "async-requests",
    "dead-letters",
    "alarms",
    "metrics",
    "capacity-marks",
    "events",
    "orphans",
    "instance-types",
    "quotas",
    "simulated-capacity",
    "spend",
    "access-keys",
    "tokens",
)


class IndexView(APIView):
    """The lists there are. Programs read the OpenAPI document instead, at /api/v1/schema/."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        """Name the lists."""
        return Response({name: request.build_absolute_uri(f"/api/v1/{name}") for name in LISTS})

    def get_view_name(self) -> str:
        """What the page is called."""
        return "Headrace API"

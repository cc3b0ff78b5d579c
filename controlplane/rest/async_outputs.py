"""`/api/v1/async-requests/{id}/output`: the answer itself, for clients that have a token and no key of the store."""

from uuid import UUID

from django.conf import settings
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from controlplane.core.errors import ValidationException
from controlplane.invocations import outputs, services
from controlplane.invocations.models import InvocationState
from controlplane.rest.schema import ERROR

BYTES = "application/octet-stream"
CONTENT_TYPE_HEADER = "Headrace-Content-Type"
ANSWER_TYPE = OpenApiParameter(
    CONTENT_TYPE_HEADER, str, OpenApiParameter.HEADER, description="The answer's own type.", response=[200]
)


class AsyncRequestOutputView(APIView):
    """The answer of one request."""

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Bytes if all goes well, JSON if not: whatever a client says that it accepts."""
        del request, force
        renderer = JSONRenderer()
        return renderer, renderer.media_type

    @extend_schema(
        operation_id="GetAsyncRequestOutput",
        parameters=[ANSWER_TYPE],
        responses={(200, BYTES): OpenApiResponse(OpenApiTypes.BINARY, "The answer."), "default": ERROR},
    )
    def get(self, request: Request, request_id: UUID) -> StreamingHttpResponse:
        """Fetch the answer of a completed request, byte for byte; its type is in the header Headrace-Content-Type.

        A model's answer is served as bytes to be saved, never as a page: it comes from the origin of the console.
        """
        row = services.get_request(request.user.account_id, request_id)
        if row.state != InvocationState.COMPLETED:
            why = f": {row.outcome_text}" if row.outcome_text else "."
            raise ValidationException(f"Request {request_id} has no answer, it is {row.state}{why}")
        plane = settings.HEADRACE
        found = outputs.read(plane.s3_endpoint_url, plane.region, row.output_location, request_id)
        headers = {
            "Content-Length": str(found.length),
            "Content-Disposition": f'attachment; filename="{request_id}.out"',
            "X-Content-Type-Options": "nosniff",
            CONTENT_TYPE_HEADER: found.content_type,
        }
        return StreamingHttpResponse(found.pieces, content_type=BYTES, headers=headers)

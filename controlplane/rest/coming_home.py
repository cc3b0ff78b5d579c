"""`/api/v1/endpoints/{name}/coming-home`: holding back the moves that an endpoint makes by itself."""

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.core.ids import Arn
from controlplane.endpoints import homing
from controlplane.endpoints.models import Endpoint
from controlplane.rest.schema import ERROR


class ComingHomeSerializer(serializers.Serializer):
    """Whether coming-home moves of an endpoint may start."""

    EndpointName = serializers.CharField(source="name")
    PausedAt = serializers.DateTimeField(source="home_paused_at", allow_null=True, help_text="Null: moves may start.")
    PausedBy = serializers.CharField(source="home_paused_by", allow_blank=True)


class PauseComingHomeView(APIView):
    """Holding moves back."""

    @extend_schema(operation_id="PauseComingHome", request=None, responses={200: ComingHomeSerializer, "default": ERROR})
    def post(self, request: Request, name: str) -> Response:
        """Start no coming-home move of this endpoint until it is resumed; one that is under way goes on."""
        return _answer(homing.pause(arn=_arn(request, name), now=clock.now()))


class ResumeComingHomeView(APIView):
    """Letting moves start again."""

    @extend_schema(operation_id="ResumeComingHome", request=None, responses={200: ComingHomeSerializer, "default": ERROR})
    def post(self, request: Request, name: str) -> Response:
        """Let coming-home moves of this endpoint start again."""
        return _answer(homing.resume(arn=_arn(request, name), now=clock.now()))


def _arn(request: Request, name: str) -> Arn:
    return Arn(settings.HEADRACE.region, request.user.account_id, "endpoint", name)


def _answer(endpoint: Endpoint) -> Response:
    return Response(ComingHomeSerializer(endpoint).data)

"""Who may see the gauges: they name endpoints and prices, but no secret and no content of a call."""

import hmac

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from controlplane.core import clock
from controlplane.gauges.exposition import text_of
from controlplane.gauges.measure import measure

FROM_THE_FRONT_DOOR = "HTTP_HEADRACE_REQUEST_ID"
"""The gateway adds this header to whatever it passes on, and takes it from nobody else."""


def metrics(request: HttpRequest) -> HttpResponse:
    """The gauges as text.

    With HEADRACE_METRICS_TOKEN whoever brings it as a bearer token is answered; without one only whoever reaches the
    API process itself, which no client can through the gateway.
    """
    token = settings.HEADRACE.metrics_token
    if token:
        given = request.META.get("HTTP_AUTHORIZATION") or ""
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return _plain("The bearer token of HEADRACE_METRICS_TOKEN is wanted.", 401)
    elif FROM_THE_FRONT_DOOR in request.META:
        return _plain("Ask the API process itself, or set HEADRACE_METRICS_TOKEN.", 403)
    try:
        return HttpResponse(text_of(measure(clock.now())), content_type=CONTENT_TYPE_PLAIN_0_0_4)
    except DatabaseError as error:
        return _plain(f"The database does not answer: {str(error).partition(chr(10))[0]}", 503)


def _plain(text: str, status: int) -> HttpResponse:
    return HttpResponse(text + "\n", status=status, content_type="text/plain; charset=utf-8")

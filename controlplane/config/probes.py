"""`/healthz` and `/readyz` of the API process; the gateway's own `/readyz` asks this one among others."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse


def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    del request
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """The process can do its work: the database answers."""
    del request
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return JsonResponse({"status": "unavailable", "database": str(error).splitlines()[0]}, status=503)
    return JsonResponse({"status": "ok"})

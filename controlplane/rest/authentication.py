"""Who sends a REST request: the same signature as at the AWS door, checked by the same code."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from controlplane.auth.authenticate import find_key
from controlplane.auth.sigv4 import SignedRequest, body_hash, verify
from controlplane.core import clock
from controlplane.core.errors import MissingAuthenticationToken, RequestTooLarge
from controlplane.core.ids import new_uuid
from controlplane.wire.doors import BODY_LIMIT_BYTES, SERVICE


@dataclass(frozen=True)
class Caller:
    """The account that a request speaks for; it comes from the credential alone."""

    account_id: str
    access_key_id: str


class SigV4Authentication(BaseAuthentication):
    """Signature Version 4 in its header form, service `sagemaker`."""

    def authenticate(self, request: Request) -> tuple[Caller, None]:
        """The caller; raises an AuthenticationError for anything but a good signature, or RequestTooLarge."""
        raw: HttpRequest = request._request
        signed = SignedRequest(
            raw.method or "",
            quote(raw.path),
            raw.META.get("QUERY_STRING", ""),
            tuple(_headers(raw)),
            body_hash(_body(raw)),
        )
        key = verify(signed, find_key, region=settings.HEADRACE.region, service=SERVICE, now=clock.now())
        return Caller(key.account_id, key.access_key_id), None


class IsSigned(BasePermission):
    """Every path needs a caller, but for those that say otherwise."""

    def has_permission(self, request: Request, view: object) -> bool:
        if not isinstance(request.user, Caller):
            raise MissingAuthenticationToken("Missing Authentication Token")
        return True


def request_id_of(request: HttpRequest) -> str:
    """The id under which the gateway knows the request, else a new one, the same for all who ask."""
    found = request.META.setdefault("HTTP_HEADRACE_REQUEST_ID", "") or str(new_uuid())
    request.META["HTTP_HEADRACE_REQUEST_ID"] = found
    return str(found)


def _body(request: HttpRequest) -> bytes:
    # Looked at before a byte of the body is read.
    length = request.META.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or int(length) > BODY_LIMIT_BYTES:
        raise RequestTooLarge(f"The body may hold {BODY_LIMIT_BYTES} bytes.")
    return bytes(request.body)


def _headers(request: HttpRequest) -> Iterator[tuple[str, str]]:
    """The headers as the signature covers them: names in lower case, values as they came."""
    for name, value in request.META.items():
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            yield name.removeprefix("HTTP_").replace("_", "-").lower(), value

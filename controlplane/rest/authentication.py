"""Who sends a REST request. Three credentials, each with its own scheme, looked at in this order:

    Authorization: AWS4-HMAC-SHA256 ...   a signature, as at the AWS door and checked by the same code: an administrator
    Authorization: Bearer hr_...          an API token (`auth.tokens`), with the rights of its role
    Cookie: sessionid=...                 an operator who is logged in to the console, with a CSRF token for every change

A request with an Authorization header is judged by it alone; what browsers send by themselves adds nothing. A token in a
query is not looked at: addresses end up in logs.

A caller speaks for the account of the credential. One who belongs to the installation's own account may name another in
the header Headrace-Account, which a signature has to cover; so may an operator, whose session may also hold one.
"""

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from controlplane.auth import tokens
from controlplane.auth.authenticate import find_key
from controlplane.auth.models import Account
from controlplane.auth.roles import Role, role_of
from controlplane.auth.sigv4 import SignedRequest, body_hash, verify
from controlplane.core import actor, clock
from controlplane.core.errors import (
    AccessDeniedException,
    ApiError,
    IncompleteSignature,
    RequestTooLarge,
    ValidationException,
)
from controlplane.core.ids import new_uuid
from controlplane.rest.caller import Caller
from controlplane.wire.doors import BODY_LIMIT_BYTES, SERVICE

SESSION_ACCOUNT = "headrace_account"
"""Where a session keeps the account that its operator looks at; without it that is the installation's own."""

BEARER = "Bearer "


class CallerAuthentication(BaseAuthentication):
    """What the three have in common: the body's cap before anything, the account, and the name that events call."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:
        """The caller, None where the request carries another credential; raises an ApiError for one that is no good."""
        try:
            _refuse_large(request._request)
            caller = self.caller_of(request._request)
            if caller is None:
                return None
            caller = _speaking_for(request._request, caller)
        except ApiError:
            request._not_authenticated()  # whoever renders the refusal finds nobody, and does not ask again
            raise
        actor.become(caller.actor)
        return caller, None

    def caller_of(self, raw: HttpRequest) -> Caller | None:
        """The caller of the account that the credential belongs to."""
        raise NotImplementedError


class SigV4Authentication(CallerAuthentication):
    """Signature Version 4 in its header form, service `sagemaker`."""

    def caller_of(self, raw: HttpRequest) -> Caller | None:
        """Every Authorization header that is no bearer's is taken for a signature, good or not."""
        authorization = raw.META.get("HTTP_AUTHORIZATION")
        if authorization is None or _is_bearer(authorization):
            return None
        signed = SignedRequest(
            raw.method or "",
            quote(raw.path),
            raw.META.get("QUERY_STRING", ""),
            tuple(_headers(raw)),
            body_hash(bytes(raw.body)),
        )
        key = verify(signed, find_key, region=settings.HEADRACE.region, service=SERVICE, now=clock.now())
        return Caller(
            key.account_id,
            f"key {key.access_key_id}",
            Role.ADMINISTRATOR,
            is_installation=_is_installation(key.account_id),
            access_key_id=key.access_key_id,
        )


class TokenAuthentication(CallerAuthentication):
    """API tokens."""

    def caller_of(self, raw: HttpRequest) -> Caller | None:
        authorization = raw.META.get("HTTP_AUTHORIZATION")
        if authorization is None or not _is_bearer(authorization):
            return None
        secret = authorization[len(BEARER) :].strip()
        if not secret.startswith(tokens.PREFIX):
            raise IncompleteSignature(
                f"A bearer token of these paths starts with {tokens.PREFIX}. Those of the OpenAI paths open nothing else."
            )
        rights = tokens.recognise(secret, clock.now())
        account_id = rights.token.account_id
        return Caller(account_id, f"token {rights.token.name}", rights.role, is_installation=_is_installation(account_id))


class SessionAuthentication(CallerAuthentication):
    """Operators who are logged in to the console. The middleware has looked the session up where there is a cookie."""

    def caller_of(self, raw: HttpRequest) -> Caller | None:
        user = getattr(raw, "user", None)
        if "HTTP_AUTHORIZATION" in raw.META or user is None or not user.is_authenticated:
            return None
        _enforce_csrf(raw)
        role = role_of(user)
        if role is None:
            raise AccessDeniedException(f"Operator {user.get_username()} has no role. An administrator can give one.")
        account_id = raw.session.get(SESSION_ACCOUNT, settings.HEADRACE.account_id)
        name = user.get_username()
        return Caller(account_id, f"operator {name}", role, is_installation=True, username=name)


def request_id_of(request: HttpRequest) -> str:
    """The id under which the gateway knows the request, else a new one, the same for all who ask."""
    found = request.META.setdefault("HTTP_HEADRACE_REQUEST_ID", "") or str(new_uuid())
    request.META["HTTP_HEADRACE_REQUEST_ID"] = found
    return str(found)


def _speaking_for(raw: HttpRequest, caller: Caller) -> Caller:
    """The caller, for the account that the request names."""
    wanted = raw.META.get("HTTP_HEADRACE_ACCOUNT")
    if wanted is None or wanted == caller.account_id:
        return caller
    if not caller.is_installation:
        raise AccessDeniedException(f"This credential speaks for account {caller.account_id} alone.")
    if not Account.objects.filter(pk=wanted[:12]).exists() or len(wanted) > 12:
        raise ValidationException(f"Headrace-Account: there is no account {wanted[:64]!r}.")
    return replace(caller, account_id=wanted)


def _is_installation(account_id: str) -> bool:
    return bool(account_id == settings.HEADRACE.account_id)


def _is_bearer(authorization: str) -> bool:
    return authorization[: len(BEARER)].lower() == BEARER.lower()


def _enforce_csrf(raw: HttpRequest) -> None:
    """A change needs the token that only the console's own pages know; raises AccessDeniedException."""
    check = CSRFCheck(lambda request: None)
    check.process_request(raw)
    reason = check.process_view(raw, None, (), {})
    if reason:
        raise AccessDeniedException(f"A change made with a session needs its CSRF token: {reason}")


def _refuse_large(raw: HttpRequest) -> None:
    # Looked at before a byte of the body is read.
    length = raw.META.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or int(length) > BODY_LIMIT_BYTES:
        raise RequestTooLarge(f"The body may hold {BODY_LIMIT_BYTES} bytes.")


def _headers(request: HttpRequest) -> Iterator[tuple[str, str]]:
    """The headers as the signature covers them: names in lower case, values as they came."""
    for name, value in request.META.items():
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            yield name.removeprefix("HTTP_").replace("_", "-").lower(), value

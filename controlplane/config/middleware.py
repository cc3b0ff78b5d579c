"""Middleware of the console and of operators on the resource paths, kept off the API's path."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware

from controlplane.core.actor import acting
from controlplane.core.content_security import policy

CONSOLE_PREFIX = "/admin/"
REST_PREFIX = "/api/v1/"

STRANGER = "nobody"
"""Who acts on the resource paths until a credential says who."""

Handler = Callable[[HttpRequest], HttpResponse]

# Alpine, which unfold's templates are written for, evaluates the expressions in their attributes.
CONTENT_SECURITY_POLICY = policy(script_src="'self' 'unsafe-eval'")
"""No page of the console runs a script that was written into it, or asks anything of another host."""


class ConsoleOnly:
    """Sessions, CSRF and messages for the console; the API, which is authenticated by signature, skips them all.

    Measured on the API's hottest call, Django's default middleware costs about as much as the handler itself. On the
    resource paths an operator's session counts too: it is looked up only where its cookie comes without another credential.
    """

    def __init__(self, get_response: Handler) -> None:
        self._api = get_response
        console: Handler = get_response
        for middleware in (
            XFrameOptionsMiddleware,
            MessageMiddleware,
            AuthenticationMiddleware,
            CsrfViewMiddleware,
            SessionMiddleware,
            SecurityMiddleware,
        ):
            console = middleware(console)
        self._console = console
        operators: Handler = get_response
        for middleware in (AuthenticationMiddleware, CsrfViewMiddleware, SessionMiddleware):
            operators = middleware(operators)
        self._operators = operators
        self._csrf = CsrfViewMiddleware(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(REST_PREFIX):
            return self._resource(request)
        if not request.path_info.startswith(CONSOLE_PREFIX):
            return self._api(request)
        response = self._console(request)
        response.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        return response

    def process_view(
        self, request: HttpRequest, view: Handler, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> HttpResponse | None:
        """CSRF for every view of the console, whether or not it asks for it. Django calls this of the outermost only."""
        if not request.path_info.startswith(CONSOLE_PREFIX):
            return None
        refusal: HttpResponse | None = self._csrf.process_view(request, view, args, kwargs)
        return refusal

    def _resource(self, request: HttpRequest) -> HttpResponse:
        """Whatever is recorded is the act of whoever turns out to ask, and of nobody once it is answered."""
        is_session = "HTTP_AUTHORIZATION" not in request.META and settings.SESSION_COOKIE_NAME in request.COOKIES
        with acting(STRANGER):
            return self._operators(request) if is_session else self._api(request)

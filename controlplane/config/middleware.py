"""Middleware of the console, kept off the API's path."""

from collections.abc import Callable

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware

CONSOLE_PREFIX = "/admin/"

Handler = Callable[[HttpRequest], HttpResponse]


class ConsoleOnly:
    """Sessions, CSRF and messages for the console; the API, which is authenticated by signature, skips them all.

    Measured on the API's hottest call, Django's default middleware costs about as much as the handler itself.
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

    def __call__(self, request: HttpRequest) -> HttpResponse:
        handler = self._console if request.path_info.startswith(CONSOLE_PREFIX) else self._api
        return handler(request)

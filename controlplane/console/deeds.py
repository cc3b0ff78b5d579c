"""Doing what a form asks for by a service, and saying on the next page how that went."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from controlplane.core.errors import ApiError


def done(request: HttpRequest, deed: Callable[[], str], back: str) -> HttpResponse:
    """Do it and go `back` (the name of a URL) with the sentence it returns, or with the service's reason why not."""
    try:
        messages.success(request, deed())
    except ApiError as refusal:
        messages.error(request, refusal.message)
    return redirect(back)

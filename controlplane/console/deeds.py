"""Doing what a form asks for by a service, and saying on the next page how that went."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from controlplane.core.errors import ApiError

Make = Callable[[dict[str, Any]], tuple[Any, str]]
"""Makes a credential of what was filled in; returns it with its secret. Raises ApiError."""

Show = Callable[..., HttpResponse]
"""Renders the page that the form is on: `show(request, **more)`, with more for its template."""


def done(request: HttpRequest, deed: Callable[[], str], back: str) -> HttpResponse:
    """Do it and go `back` (the name of a URL) with the sentence it returns, or with the service's reason why not."""
    try:
        messages.success(request, deed())
    except ApiError as refusal:
        messages.error(request, refusal.message)
    return redirect(back)


def made(request: HttpRequest, form: forms.Form, make: Make, show: Show) -> HttpResponse:
    """Make the credential that the form asks for, and show it with its secret: in this answer and nowhere else.

    What the form or the service refuses is shown with what was filled in.
    """
    if not form.is_valid():
        return show(request, form=form)
    try:
        credential, secret = make(form.cleaned_data)
    except ApiError as refusal:
        messages.error(request, refusal.message)
        return show(request, form=form)
    return show(request, made=credential, secret=secret)

"""Parts of a page that refresh themselves.

A part is rendered with its page, so the page is whole without scripts. It then asks for itself again (htmx) every few
seconds, only while the page can be seen; with `seen`, a digest of what it shows: when nothing has changed the answer is
204, and the page is left alone, with its scroll position, its focus and whatever the pointer rests on.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from controlplane.auth.roles import Role
from controlplane.console.access import may

BUSY_SECONDS = 3
"""How often a part looks again while something is in progress."""

IDLE_SECONDS = 15
"""How often it does while nothing is."""


@dataclass(frozen=True)
class Live:
    """A part of a page: its id in the document, where it asks for itself, what renders it, and how soon it looks again.

    The template also has `can_operate` and `can_administer`, as the page has.
    """

    name: str
    url: str
    template: str
    context: Mapping[str, Any]
    seconds: int = IDLE_SECONDS

    def html(self, request: HttpRequest) -> SafeString:
        """The part with its refreshing wrapper, to be put into a page as it is."""
        return self._wrapped(self._body(request))

    def answer(self, request: HttpRequest) -> HttpResponse:
        """The part alone, or 204 where the asker has seen just this."""
        body = self._body(request)
        if request.GET.get("seen") == _digest(body):
            return HttpResponse(status=204)
        return HttpResponse(self._wrapped(body))

    def _body(self, request: HttpRequest) -> str:
        rights = {"can_operate": may(request, Role.OPERATOR), "can_administer": may(request, Role.ADMINISTRATOR)}
        return render_to_string(self.template, {**rights, **self.context}, request)

    def _wrapped(self, body: str) -> SafeString:
        return format_html(
            '<section id="{}" class="hr-live" hx-get="{}" hx-vals="{}" hx-trigger="every {}s [headrace.isLooking(this)]" '
            'hx-swap="outerHTML">{}</section>',
            self.name,
            self.url,
            f'{{"seen": "{_digest(body)}"}}',
            self.seconds,
            mark_safe(body),  # rendered by a template, which escaped what it was given
        )


_TIMES = re.compile(r"(<time [^>]*>)[^<]*")


def _digest(body: str) -> str:
    """Of all but the words of relative times, which the browser keeps true by itself."""
    return blake2b(_TIMES.sub(r"\1", body).encode(), digest_size=8).hexdigest()

"""The resource paths as pages, for operators who are logged in to the console; everybody else gets JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer, JSONRenderer
from rest_framework.request import Request

from controlplane.core.content_security import policy
from controlplane.core.errors import ApiError

CONTENT_SECURITY_POLICY = policy()
"""Names and reasons of strangers are shown here: whatever they hold, it is not run."""


class PageRenderer(BrowsableAPIRenderer):
    """DRF's browsable API, with the forms that the operator's role allows."""

    template = "rest/page.html"

    def get_default_renderer(self, view: Any) -> BaseRenderer:
        """What is shown inside the page: always JSON."""
        return JSONRenderer()

    def show_form_for_method(self, view: Any, method: str, request: Request, obj: Any) -> bool:
        """Whether there is a form for this method: not for what the operator may not do."""
        try:
            return bool(super().show_form_for_method(view, method, request, obj))
        except ApiError:
            return False

    def get_rendered_html_form(self, data: Any, view: Any, method: str, request: Request) -> Any:
        """No button for OPTIONS: what can be asked stands in the documents."""
        return None if method == "OPTIONS" else super().get_rendered_html_form(data, view, method, request)

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> str:
        page: str = super().render(data, accepted_media_type, renderer_context)
        # Set once the page is made, which shows the headers of the answer itself.
        response = renderer_context["response"]
        response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response["X-Content-Type-Options"] = "nosniff"
        response["Referrer-Policy"] = "same-origin"
        # A page on a public computer is not to be had by its back button once the operator has left.
        response["Cache-Control"] = "no-store"
        return page

    def get_context(self, *args: Any) -> Mapping[str, Any]:
        context: dict[str, Any] = super().get_context(*args)
        return {**context, "caller": context["request"].user}


class JsonUnlessLoggedIn(DefaultContentNegotiation):
    """Pages are for sessions: a client that would take HTML as well as anything else means JSON."""

    def select_renderer(
        self, request: Request, renderers: Sequence[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        is_page_allowed = hasattr(request._request, "session") and "HTTP_AUTHORIZATION" not in request.META
        offered = [each for each in renderers if is_page_allowed or not isinstance(each, PageRenderer)]
        chosen: tuple[BaseRenderer, str] = super().select_renderer(request, offered, format_suffix)
        return chosen

"""The OpenAPI document as it is served, and the two pages that show it, with assets from this host alone.

The document says what can be asked, not what there is: anybody may read it. It is made once in each process.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.http import HttpResponse, HttpResponseNotModified
from django.views.generic import TemplateView
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from controlplane.rest.routes import PREFIX

OPEN: dict[str, Any] = {"authentication_classes": [], "permission_classes": []}
"""How a view is made that anybody may ask."""

DOCUMENT_PATH = f"{PREFIX}/schema/"

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "frame-ancestors 'none'",
    )
)
"""Both libraries style as they go; neither needs a script in a page, or another host."""

_AS_JSON, _AS_YAML = JSONRenderer(), OpenApiYamlRenderer2()


class DocumentView(APIView):
    """The document: JSON, or YAML for those that ask for it."""

    # The first is what a client gets that accepts anything.
    renderer_classes = [OpenApiJsonRenderer2, OpenApiJsonRenderer, OpenApiYamlRenderer2, OpenApiYamlRenderer]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """The document in the form that Accept names, or 304 for a client that has it."""
        body, tag = rendered(request.accepted_renderer.format)
        if request.headers.get("If-None-Match") == tag:
            return HttpResponseNotModified(headers={"ETag": tag})
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        return HttpResponse(body, content_type=request.accepted_renderer.media_type, headers=headers)


@cache
def document() -> dict[str, Any]:
    """The whole document; the same in every process of a version."""
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


@cache
def rendered(kind: str) -> tuple[bytes, str]:
    """The document as `json` or `yaml`, and its entity tag."""
    body: bytes = (_AS_YAML if kind == "yaml" else _AS_JSON).render(document(), renderer_context={})
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


class DocsPage(TemplateView):
    """A page that shows the document. It needs no credential; what is tried on it does."""

    extra_context = {"document": DOCUMENT_PATH}

    def render_to_response(self, context: Mapping[str, Any], **options: Any) -> HttpResponse:
        return super().render_to_response(context, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY}, **options)

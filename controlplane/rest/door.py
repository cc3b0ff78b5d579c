"""The third door: the AWS-named operations as resources, through the same handlers, checks and errors as at `POST /`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import IO, Any, ClassVar
from urllib.parse import quote

from django.conf import settings
from django.urls import URLPattern, re_path
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.catalog.instance_types import known_instance_types
from controlplane.core import clock
from controlplane.rest.authentication import request_id_of
from controlplane.rest.openapi import ResourceSchema
from controlplane.rest.openapi_prose import OPERATIONS
from controlplane.rest.routes import PREFIX, Route, by_path
from controlplane.wire import resource, validate
from controlplane.wire.model import load_service
from controlplane.wire.registry import Context, handler_of


class WireParser(BaseParser):
    """Hands a JSON body on as bytes: the wire's own reader is stricter than DRF's, and the same at every door."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> bytes:
        return stream.read()


class ResourceView(APIView):
    """One path and what its methods do; the classes are made from the table in `routes`."""

    routes: ClassVar[Mapping[str, Route]] = MappingProxyType({})
    parser_classes = [WireParser]
    schema = ResourceSchema()

    @property
    def is_read(self) -> bool:
        """Whether the request at hand changes nothing, whatever its method."""
        route = self.routes.get(self.request.method)
        return route is not None and route.is_read

    def answer(self, request: Request, **path: str) -> Response:
        """Check the request, have its handler answer, and tell that as a resource does."""
        route = self.routes["GET" if request.method == "HEAD" else request.method]
        model = load_service(route.service.model).operation_model(route.operation)
        params = _params(route, model.input_shape, request, path)
        validate.check(model.input_shape, params, route.service.violation, known_instance_types)
        context = _context(request)
        found = handler_of(route.operation, route.service)(context, params)
        document = resource.to_document(model.output_shape, found)
        status = route.status(has_answer=document is not None)
        return Response(document, status=status, headers=_headers(route, context, params))


def url_patterns() -> list[URLPattern]:
    """The paths of all routes."""
    return [re_path(pattern, _view(routes).as_view()) for pattern, routes in by_path()]


def _view(routes: tuple[Route, ...]) -> type[ResourceView]:
    """The view of one path; `name` and `description` are what its page says to people."""
    methods = {route.method.lower(): ResourceView.answer for route in routes}
    words = "\n\n".join(f"{route.method}: {OPERATIONS[route.operation][1]}" for route in routes)
    told = {"name": routes[0].tag.replace("-", " ").capitalize(), "description": words}
    table = MappingProxyType({route.method: route for route in routes})
    return type("ResourceView", (ResourceView,), {"routes": table, **told, **methods})


def _params(route: Route, shape: Any, request: Request, path: Mapping[str, str]) -> dict[str, Any]:
    """The members of the request, from wherever they travel."""
    if route.has_body:
        return resource.from_body(request.data or b"", shape, path)
    rest = resource.from_query(dict(request.query_params.lists()), shape, route.in_path)
    return {**path, **rest}


def _context(request: Request) -> Context:
    caller, request_id = request.user, request_id_of(request._request)
    return Context(caller.account_id, caller.access_key_id, settings.HEADRACE.region, request_id, clock.now())


def _headers(route: Route, context: Context, params: Mapping[str, Any]) -> dict[str, str]:
    """The request's id, as at the AWS door, and where to find what was made."""
    headers = {"x-amzn-RequestId": context.request_id}
    if route.creates:
        headers["Location"] = f"{PREFIX}{route.path}/{quote(params[route.creates], safe='')}"
    return headers

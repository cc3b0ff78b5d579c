"""Who calls, and for what: the checks that every runtime request passes before anything is done for it."""

from controlplane.auth.sigv4 import Key, scope_of, verify
from controlplane.core import clock
from controlplane.core.errors import ApiError, ValidationError
from controlplane.gateway.directory import Directory
from controlplane.gateway.http import Request
from controlplane.routing.table import Route
from controlplane.wire.doors import SERVICE


async def admit(request: Request, limit: int, too_large: ApiError, directory: Directory, region: str) -> tuple[Key, bytes]:
    """The key that signed the request, and its body of at most `limit` bytes.

    The body of a stranger is not read. Raises an AuthenticationError, `too_large`, or ServiceUnavailable.
    """
    scope = scope_of(request.headers, "")
    is_known = scope is not None and await directory.knows_key(scope.access_key_id)
    body, digest = await request.body(limit, too_large) if is_known else (b"", "")
    signed = request.signed(digest)
    return verify(signed, directory.keys.find, region=region, service=SERVICE, now=clock.now()), body


async def serving_route(directory: Directory, key: Key, endpoint_name: str, *, is_async: bool) -> Route:
    """The caller's endpoint of that name, if it serves and takes this kind of call; raises ValidationError."""
    route = await directory.route(key.account_id, endpoint_name)
    if route is None:
        raise ValidationError(f"Endpoint {endpoint_name} of account {key.account_id} not found.")
    if is_async != (route.async_inference is not None):
        raise ValidationError(f"Endpoint {endpoint_name} does not support this inference type.")
    return route

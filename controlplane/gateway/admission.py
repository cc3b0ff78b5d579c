"""Who calls, and for what: the checks that every runtime request passes before anything is done for it."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from controlplane.auth.sigv4 import scope_of, verify
from controlplane.core import clock
from controlplane.core.errors import ApiError, ValidationError
from controlplane.gateway.directory import Directory
from controlplane.gateway.http import Request, WholeRequest
from controlplane.gateway.tokens import digest_in
from controlplane.routing.table import Route
from controlplane.wire.doors import SERVICE

_MEMBER = "x-amzn-sagemaker-"
"""How the headers begin in which nothing but one member of a request travels."""


class Caller(Protocol):
    """Whoever was let in, by signature or token: what is done is done for this account."""

    @property
    def account_id(self) -> str: ...


async def admit(
    request: Request, limit: int, too_large: ApiError, directory: Directory, region: str
) -> tuple[Caller, bytes]:
    """Who signed the request or holds its token, and its body of at most `limit` bytes.

    The body of a stranger is not read. Raises an AuthenticationError, AccessDeniedException, `too_large`, or
    ServiceUnavailable.
    """
    if (token := digest_in(request.header("authorization"))) is not None:
        await directory.knows_token(token)
        caller = directory.tokens.admit(token, clock.now())
        return caller, (await request.body(limit, too_large))[0]
    scope = scope_of(request.headers, "")
    is_known = scope is not None and await directory.knows_key(scope.access_key_id)
    body, digest = await request.body(limit, too_large) if is_known else (b"", "")
    signed = request.signed(digest)
    return verify(signed, directory.keys.find, region=region, service=SERVICE, now=clock.now()), body


def admit_at_once(asked: WholeRequest, directory: Directory, region: str) -> Caller:
    """As `admit`, by what is in memory: whoever is not known here may be known to the database."""
    if (token := digest_in(asked.header("authorization"))) is not None:
        return directory.tokens.admit(token, clock.now())
    return verify(asked.signed(), directory.keys.find, region=region, service=SERVICE, now=clock.now())


def told_once(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The headers by name; raises ValidationError for a member that is given twice: each reader would pick its own.

    Of other headers that are repeated the last one counts.
    """
    found = dict(headers)
    if len(found) < len(headers):
        counts = Counter(name for name, _ in headers if name.startswith(_MEMBER))
        if repeated := [name for name, count in counts.items() if count > 1]:
            raise ValidationError(f"The request holds the header {repeated[0]} more than once.")
    return found


def not_found(caller: Caller, endpoint_name: str) -> ValidationError:
    """What is said of an endpoint that is not there, or takes no calls."""
    return ValidationError(f"Endpoint {endpoint_name} of account {caller.account_id} not found.")


async def serving_route(directory: Directory, caller: Caller, endpoint_name: str, *, is_async: bool) -> Route:
    """The caller's endpoint of that name, if it serves and takes this kind of call; raises ValidationError."""
    route = await directory.route(caller.account_id, endpoint_name)
    if route is None:
        raise not_found(caller, endpoint_name)
    if is_async != (route.async_inference is not None):
        raise ValidationError(f"Endpoint {endpoint_name} does not support this inference type.")
    return route

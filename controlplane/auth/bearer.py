"""Bearer tokens of the OpenAI-style paths: issued and verified offline. Pure: no database, no clock, no framework.

    sagemaker-api-key-BASE64( sagemaker.amazonaws.com/?Action=CallWithBearerToken&X-Amz-...&X-Amz-Signature=HEX&Version=1 )

A token is a presigned request that is never sent: a POST to a fixed host, signed for this service with the holder's key in
the query's form of Signature Version 4, its scheme cut off, a version added after signing. So whoever has a key makes
tokens without asking anybody, and they end with the key or after `X-Amz-Expires` seconds, 12 hours at most. The body of the
request that carries one is not covered. Source: contract, data plane 2.2.
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from urllib.parse import parse_qsl, urlencode

from controlplane.auth.sigv4 import (
    ALGORITHM,
    CLOCK_WINDOW,
    Key,
    Scope,
    SignedRequest,
    body_hash,
    moment_of,
    scope_of,
    sign,
    stamp_of,
)
from controlplane.core.errors import ExpiredToken, IncompleteSignature, InvalidSignature, UnrecognizedClient

PREFIX = "sagemaker-api-key-"
MOST_SECONDS = 12 * 60 * 60
HOST = "sagemaker.amazonaws.com"
"""Whatever the region, and wherever the token is used."""

TOKEN_LIMIT = 8 * 1024
"""Characters; with a long session token they are some 2,000."""

_ACTION = "CallWithBearerToken"
_VERSION = "&Version=1"
_SIGNED = ("host",)
_NOT_A_TOKEN = "The bearer token is not of the form that SageMaker's token generators make."


def issue(key: Key, *, region: str, service: str, now: datetime, seconds: int = MOST_SECONDS) -> str:
    """A token of the holder of `key`, good for `seconds` from `now`; raises ValueError beyond 1 second to 12 hours."""
    if not 1 <= seconds <= MOST_SECONDS:
        raise ValueError(f"A token is good for 1 to {MOST_SECONDS} seconds.")
    stamp = stamp_of(now)
    scope = Scope(key.access_key_id, stamp[:8], region, service)
    fields = {
        "Action": _ACTION,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{key.access_key_id}/{scope.date}/{region}/{service}/aws4_request",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": ";".join(_SIGNED),
    }
    query = urlencode(fields)
    signature = sign(_presigned(query), scope, _SIGNED, moment_of(stamp), key.secret)
    text = f"{HOST}/?{query}&X-Amz-Signature={signature}{_VERSION}"
    return PREFIX + base64.b64encode(text.encode()).decode()


def verify(token: str, find_key: Callable[[str], Key | None], *, region: str, service: str, now: datetime) -> Key:
    """The key that signed `token`; raises an AuthenticationError for anything but a good token that has not ended."""
    claims = _read(token, region, service)
    scope, fields = claims.scope, claims.fields
    key = find_key(scope.access_key_id)
    if key is None or "X-Amz-Security-Token" in fields:
        raise UnrecognizedClient("The security token included in the request is invalid.")
    sent_at = _moment(fields)
    expected = _signature(claims.unsigned, scope, sent_at, key.secret)
    if not hmac.compare_digest(expected.encode(), fields["X-Amz-Signature"].encode()):
        raise InvalidSignature(
            "The signature of the bearer token does not match: it was made with another secret, or changed."
        )
    _check_time(sent_at, _seconds(fields), now)
    return key


@dataclass(frozen=True)
class _Claims:
    """What a token says, before anything of it is believed; `unsigned` is its query without the signature."""

    scope: Scope
    fields: Mapping[str, str]
    unsigned: str


@lru_cache(maxsize=256)
def _read(token: str, region: str, service: str) -> _Claims:
    """What a token says; kept, since a client sends the same one with every call."""
    query = _query_of(token)
    fields = dict(parse_qsl(query, keep_blank_values=True))
    scope = _checked_scope(query, fields, region, service)
    return _Claims(scope, fields, "&".join(pair for pair in query.split("&") if not pair.startswith("X-Amz-Signature=")))


@lru_cache(maxsize=256)
def _signature(unsigned: str, scope: Scope, sent_at: datetime, secret: str) -> str:
    return sign(_presigned(unsigned), scope, _SIGNED, sent_at, secret)


def key_id_of(token: str) -> str:
    """The id of the key that a token claims; raises IncompleteSignature where it is no token."""
    scope = scope_of((), _query_of(token))
    if scope is None:
        raise IncompleteSignature(_NOT_A_TOKEN)
    return scope.access_key_id


def _query_of(token: str) -> str:
    """The signed query in a token."""
    encoded = token.removeprefix(PREFIX)
    if encoded == token or len(token) > TOKEN_LIMIT:
        raise IncompleteSignature(_NOT_A_TOKEN)
    try:
        text = base64.b64decode(encoded, validate=True).decode("ascii")
    except ValueError as error:
        raise IncompleteSignature(_NOT_A_TOKEN) from error
    start = f"{HOST}/?"
    if not text.startswith(start) or not text.endswith(_VERSION):
        raise IncompleteSignature(_NOT_A_TOKEN)
    return text[len(start) : -len(_VERSION)]


def _checked_scope(query: str, fields: dict[str, str], region: str, service: str) -> Scope:
    scope = scope_of((), query)
    is_form_good = (
        scope is not None
        and fields.get("Action") == _ACTION
        and fields.get("X-Amz-Algorithm") == ALGORITHM
        and fields.get("X-Amz-SignedHeaders") == ";".join(_SIGNED)
        and "X-Amz-Signature" in fields
        and len(fields) == query.count("&") + 1  # no name twice
    )
    if scope is None or not is_form_good:
        raise IncompleteSignature(_NOT_A_TOKEN)
    if (scope.region, scope.service) != (region, service):
        raise InvalidSignature(
            f"The bearer token is for {scope.service} in {scope.region}; one for {service} in {region} is needed."
        )
    return scope


def _moment(fields: Mapping[str, str]) -> datetime:
    try:
        return moment_of(fields.get("X-Amz-Date", ""))
    except ValueError as error:
        raise IncompleteSignature(_NOT_A_TOKEN) from error


def _seconds(fields: Mapping[str, str]) -> int:
    """How long the token is good for."""
    text = fields.get("X-Amz-Expires", "")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0
    if not 1 <= seconds <= MOST_SECONDS:
        raise IncompleteSignature(f"X-Amz-Expires of the bearer token must be 1 to {MOST_SECONDS} seconds.")
    return seconds


def _check_time(sent_at: datetime, seconds: int, now: datetime) -> None:
    ends_at = sent_at + timedelta(seconds=seconds)
    if now >= ends_at:
        raise ExpiredToken(f"The bearer token has expired at {stamp_of(ends_at)}; it is {stamp_of(now)}.")
    if sent_at > now + CLOCK_WINDOW:
        raise InvalidSignature(f"The bearer token is not good before {stamp_of(sent_at)}; it is {stamp_of(now)}.")


def _presigned(query: str) -> SignedRequest:
    """The request that a token stands for."""
    return SignedRequest("POST", "/", query, (("host", HOST),), body_hash(b""))

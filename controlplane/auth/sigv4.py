"""Signature Version 4, verified in its header form. Pure: no database, no clock, no framework.

    Authorization: AWS4-HMAC-SHA256 Credential=KEY/yyyymmdd/region/service/aws4_request, SignedHeaders=a;b, Signature=hex

The canonical request is built from what arrived: each path segment encoded twice (the rule of every service but S3), the
query sorted, the named headers with their white space folded, and the hash of the body as received. Whatever could
change the meaning of a request (host, X-Amz-Target, every other x-amz header) must be among the signed headers.
Source of the rules: AWS General Reference, "Signature Version 4 signing process"; error texts from the contract, 1.5.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from urllib.parse import parse_qsl, quote

from controlplane.core.errors import (
    IncompleteSignature,
    InvalidSignature,
    MissingAuthenticationToken,
    UnrecognizedClient,
)

ALGORITHM = "AWS4-HMAC-SHA256"
CLOCK_WINDOW = timedelta(minutes=5)
_TIME_FORMAT = "%Y%m%dT%H%M%SZ"
_UNSIGNED_X_AMZ = frozenset({"x-amz-sdk-invocation-id", "x-amz-sdk-request"})
"""x-amz headers that change nothing and that clients leave unsigned."""

_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method. Consult the service documentation for details."
)
_INVALID_TOKEN = "The security token included in the request is invalid."
_CREDENTIAL = re.compile(r"(?P<key>[\w=+.@-]{1,128})/(?P<date>\d{8})/(?P<region>[\w-]+)/(?P<service>[\w-]+)/aws4_request")
_AUTHORIZATION = re.compile(
    r"Credential=(?P<credential>[^\s,]+)\s*,\s*SignedHeaders=(?P<signed>[^\s,]+)\s*,\s*Signature=(?P<signature>[^\s,]+)"
)


@dataclass(frozen=True)
class Key:
    """An access key as the verifier needs it: its secret in clear and the account it speaks for."""

    access_key_id: str
    secret: str
    account_id: str


@dataclass(frozen=True)
class SignedRequest:
    """What arrived: raw path and query as sent, header names in lower case in order, values as text (latin-1)."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body_sha256: str

    def header(self, name: str) -> str | None:
        """The first value of header `name` (lower case)."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True)
class Scope:
    """The credential scope of a signature."""

    access_key_id: str
    date: str
    region: str
    service: str


@dataclass(frozen=True)
class _Authorization:
    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str


def body_hash(body: bytes) -> str:
    """The payload hash of the canonical request."""
    return hashlib.sha256(body).hexdigest()


def verify(
    request: SignedRequest, find_key: Callable[[str], Key | None], *, region: str, service: str, now: datetime
) -> Key:
    """The key that signed `request`; raises an AuthenticationError for anything but a good signature."""
    authorization = _read_authorization(request)
    sent_at = _read_time(request)
    _check_scope(authorization.scope, sent_at, region, service)
    key = find_key(authorization.scope.access_key_id)
    if key is None or request.header("x-amz-security-token") is not None:
        raise UnrecognizedClient(_INVALID_TOKEN)
    _check_coverage(request, authorization.signed_headers)
    expected = _signature(request, authorization, sent_at, key.secret)
    if not hmac.compare_digest(expected.encode(), authorization.signature.encode()):
        raise InvalidSignature(_MISMATCH)
    _check_window(sent_at, now)
    return key


def scope_of(headers: Iterable[tuple[str, str]], query: str) -> Scope | None:
    """The scope that a request claims, signed in its headers or in its query; None where there is none."""
    credential = next((value for key, value in parse_qsl(query) if key == "X-Amz-Credential"), None)
    for name, value in headers:
        if name.lower() == "authorization" and value.startswith(ALGORITHM):
            match = _AUTHORIZATION.search(value)
            credential = match["credential"] if match else None
    match = _CREDENTIAL.fullmatch(credential or "")
    return Scope(match["key"], match["date"], match["region"], match["service"]) if match else None


def _read_authorization(request: SignedRequest) -> _Authorization:
    header = request.header("authorization")
    if header is None:
        raise MissingAuthenticationToken("Missing Authentication Token")
    if not header.startswith(ALGORITHM + " "):
        raise IncompleteSignature(f"Authorization header must start with '{ALGORITHM}'.")
    match = _AUTHORIZATION.fullmatch(header.removeprefix(ALGORITHM).strip())
    if match is None:
        raise IncompleteSignature("Authorization header requires 'Credential', 'SignedHeaders' and 'Signature'.")
    credential = _CREDENTIAL.fullmatch(match["credential"])
    if credential is None:
        raise IncompleteSignature("Credential must have the form KEY/yyyymmdd/region/service/aws4_request.")
    scope = Scope(credential["key"], credential["date"], credential["region"], credential["service"])
    return _Authorization(scope, tuple(match["signed"].split(";")), match["signature"])


def _read_time(request: SignedRequest) -> datetime:
    text = request.header("x-amz-date")
    if text is None:
        raise IncompleteSignature("Authorization header requires existence of an 'X-Amz-Date' header.")
    try:
        return datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError as error:
        raise IncompleteSignature("X-Amz-Date must have the form yyyymmddThhmmssZ.") from error


def _check_scope(scope: Scope, sent_at: datetime, region: str, service: str) -> None:
    if scope.region != region:
        raise InvalidSignature(f"Credential should be scoped to a valid region, not '{scope.region}'.")
    if scope.service != service:
        raise InvalidSignature(f"Credential should be scoped to correct service: '{service}'.")
    if scope.date != sent_at.strftime("%Y%m%d"):
        raise InvalidSignature("Date in Credential scope does not match the date of X-Amz-Date.")


def _check_coverage(request: SignedRequest, signed: tuple[str, ...]) -> None:
    """Refuse a request that carries meaning outside its signature."""
    needed = {"host", "x-amz-date"}
    needed |= {name for name, _ in request.headers if name.startswith("x-amz") and name not in _UNSIGNED_X_AMZ}
    missing = sorted(needed - set(signed))
    if missing:
        raise InvalidSignature(f"The signature must cover the header(s) {', '.join(missing)}.")
    declared = request.header("x-amz-content-sha256")
    if declared is not None and not hmac.compare_digest(declared.encode(), request.body_sha256.encode()):
        raise InvalidSignature("The value of X-Amz-Content-SHA256 does not match the body.")


def _check_window(sent_at: datetime, now: datetime) -> None:
    text, now_text = sent_at.strftime(_TIME_FORMAT), now.strftime(_TIME_FORMAT)
    if sent_at < now - CLOCK_WINDOW:
        limit = (now - CLOCK_WINDOW).strftime(_TIME_FORMAT)
        raise InvalidSignature(f"Signature expired: {text} is now earlier than {limit} ({now_text} - 5 min.)")
    if sent_at > now + CLOCK_WINDOW:
        limit = (now + CLOCK_WINDOW).strftime(_TIME_FORMAT)
        raise InvalidSignature(f"Signature not yet current: {text} is still later than {limit} ({now_text} + 5 min.)")


def _signature(request: SignedRequest, authorization: _Authorization, sent_at: datetime, secret: str) -> str:
    scope = authorization.scope
    canonical = _canonical_request(request, authorization.signed_headers)
    to_sign = "\n".join(
        [
            ALGORITHM,
            sent_at.strftime(_TIME_FORMAT),
            f"{scope.date}/{scope.region}/{scope.service}/aws4_request",
            hashlib.sha256(canonical).hexdigest(),
        ]
    )
    key = _signing_key(secret, scope.date, scope.region, scope.service)
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


@lru_cache(maxsize=1024)
def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """The key of one day, region and service; four HMACs, so it is kept."""
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _canonical_request(request: SignedRequest, signed: tuple[str, ...]) -> bytes:
    """The bytes that were hashed; header values keep theirs (text here is latin-1, one character a byte)."""
    head = "\n".join([request.method, quote(request.path, safe="/-_.~"), _canonical_query(request.query)])
    headers = "".join(f"{name}:{_folded(request, name)}\n" for name in signed)
    tail = "\n".join([";".join(signed), request.body_sha256])
    return b"\n".join([head.encode(), headers.encode("latin-1"), tail.encode()])


def _folded(request: SignedRequest, name: str) -> str:
    """All values of a header, white space at the ends cut and in between folded to one space."""
    return ",".join(" ".join(value.split()) for key, value in request.headers if key == name)


def _canonical_query(query: str) -> str:
    pairs = [(quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in parse_qsl(query, keep_blank_values=True)]
    return "&".join(f"{key}={value}" for key, value in sorted(pairs))

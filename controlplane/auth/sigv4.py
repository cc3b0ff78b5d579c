"""Signature Version 4, verified in its header form. Pure: no database, no clock, no framework.

    Authorization: AWS4-HMAC-SHA256 Credential=KEY/yyyymmdd/region/service/aws4_request, SignedHeaders=a;b, Signature=hex

The canonical request is built from what arrived: each path segment encoded twice (the rule of every service but S3), the
query sorted, the named headers with their white space folded, and the hash of the body as received. Whatever could
change the meaning of a request (host, X-Amz-Target, every other x-amz header, every member of a runtime request that
travels in a header of its own) must be among the signed headers; what clients or proxies add on the way need not be.
Source of the rules: AWS General Reference, "Signature Version 4 signing process"; error texts from the contract, 1.5.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from controlplane.core.errors import (
    IncompleteSignature,
    InvalidSignature,
    MissingAuthenticationToken,
    UnrecognizedClient,
)

ALGORITHM = "AWS4-HMAC-SHA256"
CLOCK_WINDOW = timedelta(minutes=5)
_TIME_FORMAT = "%Y%m%dT%H%M%SZ"
_MUST_BE_SIGNED = ("x-amz-", "x-amzn-sagemaker-", "headrace-account")
"""Prefixes of the headers that carry meaning. X-Amzn-Trace-Id is none: clients and load balancers add it unsigned."""

_ADDED_ON_THE_WAY = frozenset({"x-amz-cf-id"})
"""x-amz headers that a content delivery network adds to a request it passes on."""

_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method. Consult the service documentation for details."
)
_INVALID_TOKEN = "The security token included in the request is invalid."
_PARTS_MISSING = "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature'."
_CREDENTIAL = re.compile(
    r"(?P<key>[\w=+.@-]{1,128})/(?P<date>\d{8})/(?P<region>[\w-]+)/(?P<service>[\w-]+)/aws4_request", re.ASCII
)


@dataclass(frozen=True)
class Key:
    """An access key as the verifier needs it: its secret in clear and the account it speaks for."""

    access_key_id: str
    secret: str
    account_id: str


@dataclass(slots=True)
class SignedRequest:
    """What arrived: raw path and query as sent, header names in lower case in order, values as text (latin-1).

    Nobody changes it; it is not frozen because that makes the making of one several times as dear.
    """

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body_sha256: str
    first: dict[str, str] = field(init=False, repr=False, compare=False)
    """The value of each header, the first one of several. Checking a signature asks for a dozen."""

    def __post_init__(self) -> None:
        self.first = dict(self.headers)
        if not self.is_single:
            self.first = dict(reversed(self.headers))

    @property
    def is_single(self) -> bool:
        """Whether no header is given twice."""
        return len(self.first) == len(self.headers)

    def header(self, name: str) -> str | None:
        """The first value of header `name` (lower case)."""
        return self.first.get(name)


@dataclass(frozen=True)
class Scope:
    """The credential scope of a signature."""

    access_key_id: str
    date: str
    region: str
    service: str


@dataclass(frozen=True)
class _Claims:
    """What a signature covers, and by whose key; the same for all calls of a client on one day."""

    scope: Scope
    signed_headers: tuple[str, ...]


def body_hash(body: bytes) -> str:
    """The payload hash of the canonical request."""
    return hashlib.sha256(body).hexdigest()


def verify(
    request: SignedRequest, find_key: Callable[[str], Key | None], *, region: str, service: str, now: datetime
) -> Key:
    """The key that signed `request`; raises an AuthenticationError for anything but a good signature."""
    claims, signature = _read_authorization(request)
    sent_at = _read_time(request)
    _check_scope(claims.scope, sent_at, region, service)
    key = find_key(claims.scope.access_key_id)
    if key is None or request.header("x-amz-security-token") is not None:
        raise UnrecognizedClient(_INVALID_TOKEN)
    _check_coverage(request, claims.signed_headers)
    expected = sign(request, claims.scope, claims.signed_headers, sent_at, key.secret)
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise InvalidSignature(_MISMATCH)
    _check_window(sent_at, now)
    return key


def scope_of(headers: Iterable[tuple[str, str]], query: str) -> Scope | None:
    """The scope that a request claims, signed in its headers (which come first) or its query; None where there is none."""
    authorization = next((value for name, value in headers if name.lower() == "authorization"), None)
    if authorization is not None:
        return _claimed_scope(_without_signature(authorization)[0])
    if "X-Amz-Credential=" not in query:
        return None
    return _read_scope(next((value for key, value in parse_qsl(query) if key == "X-Amz-Credential"), ""))


@lru_cache(maxsize=256)
def _claimed_scope(authorization: str) -> Scope | None:
    return _read_scope(_parameters(authorization).get("Credential", ""))


@lru_cache(maxsize=1024)
def _read_scope(credential: str) -> Scope | None:
    """The scope in a Credential; kept, since a key's calls of one day all have the same."""
    match = _CREDENTIAL.fullmatch(credential)
    return Scope(match["key"], match["date"], match["region"], match["service"]) if match else None


def _parameters(authorization: str) -> dict[str, str]:
    """The parameters of an Authorization header, in whatever order; none where it is of another kind."""
    algorithm, _, rest = authorization.partition(" ")
    parts = (part.strip().partition("=") for part in rest.split(",")) if algorithm == ALGORITHM else ()
    return {name: value for name, _, value in parts}


def _read_authorization(request: SignedRequest) -> tuple[_Claims, str]:
    """What the signature claims to cover, and the signature."""
    header = request.header("authorization")
    if header is None:
        raise MissingAuthenticationToken("Missing Authentication Token")
    if not header.startswith(ALGORITHM + " "):
        raise IncompleteSignature(f"Authorization header must start with '{ALGORITHM}'.")
    claims, signature = _without_signature(header)
    if not signature:
        raise IncompleteSignature(_PARTS_MISSING)
    return _read_claims(claims), signature


def _without_signature(authorization: str) -> tuple[str, str]:
    """What all calls of a client have the same, and the signature, which clients write last; in another order the whole
    header has both."""
    claims, _, signature = authorization.rpartition(", Signature=")
    if not claims or "," in signature:
        return authorization, _parameters(authorization).get("Signature", "")
    return claims, signature.strip()


@lru_cache(maxsize=256)
def _read_claims(authorization: str) -> _Claims:
    """What an Authorization header claims, its signature aside."""
    given = _parameters(authorization)
    if not (given.get("Credential") and given.get("SignedHeaders")):
        raise IncompleteSignature(_PARTS_MISSING)
    scope = _read_scope(given["Credential"])
    if scope is None:
        raise IncompleteSignature("Credential must have the form KEY/yyyymmdd/region/service/aws4_request.")
    return _Claims(scope, tuple(given["SignedHeaders"].split(";")))


def _read_time(request: SignedRequest) -> datetime:
    """When the client says it signed: X-Amz-Date, else Date in the form that HTTP gives it."""
    text, http_text = request.header("x-amz-date"), request.header("date")
    try:
        if text is not None:
            return moment_of(text)
        if http_text is not None:
            return _in_utc(parsedate_to_datetime(http_text))
    except (ValueError, OverflowError) as error:
        raise IncompleteSignature("X-Amz-Date must have the form yyyymmddThhmmssZ, or Date that of HTTP.") from error
    raise IncompleteSignature("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")


@lru_cache(maxsize=512)
def moment_of(text: str) -> datetime:
    """The moment of an X-Amz-Date; kept, since many requests share their second."""
    return datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC)


def _in_utc(moment: datetime) -> datetime:
    """HTTP's dates are UTC; one written with `-0000` is parsed without a zone."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _check_scope(scope: Scope, sent_at: datetime, region: str, service: str) -> None:
    if scope.region != region:
        raise InvalidSignature(f"Credential should be scoped to a valid region, not '{scope.region}'.")
    if scope.service != service:
        raise InvalidSignature(f"Credential should be scoped to correct service: '{service}'.")
    if scope.date != stamp_of(sent_at)[:8]:
        raise InvalidSignature("Date in Credential scope does not match the date of X-Amz-Date.")


def _check_coverage(request: SignedRequest, signed: tuple[str, ...]) -> None:
    """Refuse a request that carries meaning outside its signature."""
    if missing := _uncovered(tuple(request.first), signed):
        raise InvalidSignature(f"The signature must cover the header(s) {', '.join(missing)}.")
    declared = request.header("x-amz-content-sha256")
    if declared is not None and not hmac.compare_digest(declared.encode(), request.body_sha256.encode()):
        raise InvalidSignature("The value of X-Amz-Content-SHA256 does not match the body.")


@lru_cache(maxsize=256)
def _uncovered(names: tuple[str, ...], signed: tuple[str, ...]) -> list[str]:
    """The headers among `names` that must be signed and are not; kept, since a client's calls have the same headers."""
    needed = ["host", "x-amz-date" if "x-amz-date" in names else "date"]
    needed += [name for name in names if name.startswith(_MUST_BE_SIGNED)]
    return sorted(set(needed).difference(signed, _ADDED_ON_THE_WAY))


def _check_window(sent_at: datetime, now: datetime) -> None:
    if abs(now - sent_at) <= CLOCK_WINDOW:
        return
    earliest, latest = now - CLOCK_WINDOW, now + CLOCK_WINDOW
    if sent_at < earliest:
        detail = f"{stamp_of(sent_at)} is now earlier than {stamp_of(earliest)} ({stamp_of(now)} - 5 min.)"
        raise InvalidSignature(f"Signature expired: {detail}")
    if sent_at > latest:
        detail = f"{stamp_of(sent_at)} is still later than {stamp_of(latest)} ({stamp_of(now)} + 5 min.)"
        raise InvalidSignature(f"Signature not yet current: {detail}")


@lru_cache(maxsize=512)
def stamp_of(moment: datetime) -> str:
    """A moment in the form of X-Amz-Date."""
    return moment.strftime(_TIME_FORMAT)


def sign(request: SignedRequest, scope: Scope, signed_headers: tuple[str, ...], sent_at: datetime, secret: str) -> str:
    """The signature, in hexadecimal, that `secret` gives the request and the headers named."""
    canonical = _canonical_request(request, signed_headers)
    to_sign = "\n".join(
        [
            ALGORITHM,
            stamp_of(sent_at),
            f"{scope.date}/{scope.region}/{scope.service}/aws4_request",
            hashlib.sha256(canonical).hexdigest(),
        ]
    )
    key = _signing_key(secret, scope.date, scope.region, scope.service)
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


@lru_cache(maxsize=1024)
def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """The key of one day, region and service; four HMACs, so it is kept."""
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _canonical_request(request: SignedRequest, signed: tuple[str, ...]) -> bytes:
    """The bytes that were hashed."""
    query = _canonical_query(request.query) if request.query else ""
    head = f"{request.method}\n{_canonical_path(request.path)}\n{query}\n"
    tail = f"\n{';'.join(signed)}\n{request.body_sha256}"
    return f"{head}{_canonical_headers(request, signed)}{tail}".encode("utf-8", "surrogateescape")


@lru_cache(maxsize=1024)
def _canonical_path(path: str) -> str:
    """The path encoded once more; kept, since an endpoint's calls all have the same."""
    return quote(path, safe="/-_.~")


def _canonical_headers(request: SignedRequest, signed: tuple[str, ...]) -> str:
    """The lines of the headers that are signed; of one that is missing an empty one."""
    if request.is_single:
        first = request.first
        return "".join([f"{name}:{_folded(first.get(name, ''))}\n" for name in signed])
    values: dict[str, list[str]] = {name: [] for name in signed}
    for name, value in request.headers:
        if name in values:
            values[name].append(_folded(value))
    return "".join([f"{name}:{','.join(values[name])}\n" for name in signed])


def _folded(value: str) -> str:
    """A header's value, white space at the ends cut and in between folded to one space.

    Clients fold text before they encode it. Values here are latin-1, one character a byte, where the second byte of a
    letter such as U+00E0 looks like white space; so they are decoded first, and bytes that are not UTF-8 stay as they are.
    """
    as_sent = value if value.isascii() else value.encode("latin-1").decode("utf-8", "surrogateescape")
    return " ".join(as_sent.split())


def _canonical_query(query: str) -> str:
    """The parameters in order, each encoded anew; by bytes, since an encoded value need not be text."""
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    encoded = sorted((_encoded_anew(name), _encoded_anew(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _encoded_anew(text: str) -> str:
    return quote(unquote_to_bytes(text), safe="-_.~")

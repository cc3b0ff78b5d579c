"""The calls to EC2: one attempt each, bounded in time, with errors as kinds.

boto3 tries nothing again by itself. A throttle has to be known at once, a shortage is answered with a status (500) that
boto3 would try again, and a lost reply is the control plane's to follow up: it has the token and a back-off of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    ProfileNotFound,
    ProxyConnectionError,
)
from botocore.parsers import ResponseParserError

from controlplane.core import clock
from workers.providers.base import CALL_TIMEOUT_SECONDS
from workers.providers.ec2.codes import kind_of
from workers.providers.ec2.settings import Settings
from workers.providers.errors import ErrorKind, ProviderError

CONNECT_SECONDS = 2.5
READ_SECONDS = 7.0
"""With CONNECT_SECONDS within CALL_TIMEOUT_SECONDS."""

PAGE_SIZE = 500
MESSAGE_LIMIT = 300
"""An error message is cut here: one about missing rights carries kilobytes that only EC2 can read."""

_NOTHING_SENT = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError, CredentialRetrievalError)


class CallError(ProviderError):
    """A ProviderError that remembers EC2's code; empty when EC2 did not answer."""

    def __init__(self, kind: ErrorKind, message: str, code: str = "") -> None:
        super().__init__(kind, message)
        self.code = code


def connect(settings: Settings) -> Any:
    """boto3's client for EC2, shared by all threads; nothing is sent yet. Raises ValueError for an unknown profile."""
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=32,
        # AWS_ENDPOINT_URL is how users of Headrace point their clients at Headrace: not the EC2 that is meant here.
        ignore_configured_endpoint_urls=True,
    )
    core = botocore.session.Session(profile=settings.profile or None)
    if settings.has_embedded_store and not settings.endpoint_url:
        # The environment's key opens the embedded store; EC2 is not to see it.
        core.get_component("credential_provider").remove("env")
    try:
        session = boto3.session.Session(botocore_session=core, region_name=settings.region)
    except ProfileNotFound as error:
        raise ValueError(f"HEADRACE_EC2_PROFILE names no profile that there is: {settings.profile!r}.") from error
    return session.client("ec2", endpoint_url=settings.endpoint_url or None, config=config)


@contextmanager
def told_as_kinds(what: str) -> Iterator[None]:
    """Turn whatever boto3 raises inside into a CallError about `what`."""
    try:
        yield
    except ClientError as error:
        raise _refused(what, error.response) from error
    except _NOTHING_SENT as error:
        message = f"EC2 could not be reached for {what}; nothing was sent ({type(error).__name__})."
        raise CallError(ErrorKind.THROTTLED, message) from error
    except (HTTPClientError, ResponseParserError) as error:
        message = f"The answer of EC2 to {what} was lost ({type(error).__name__})."
        raise CallError(ErrorKind.AMBIGUOUS, message) from error
    except BotoCoreError as error:
        # What is left fails before anything is sent: no credentials, parameters that the model does not allow.
        raise CallError(ErrorKind.MISCONFIGURED, f"{what} cannot be asked: {error}"[:MESSAGE_LIMIT]) from error


def pages(call: Callable[..., Mapping[str, Any]], key: str, **parameters: Any) -> list[Any]:
    """All entries under `key` of a paged describe, within CALL_TIMEOUT_SECONDS. Raises CallError."""
    deadline, found = clock.monotonic() + CALL_TIMEOUT_SECONDS - READ_SECONDS, []
    token: dict[str, str] = {}
    while True:
        with told_as_kinds("a listing"):
            page = call(MaxResults=PAGE_SIZE, **parameters, **token)
        found += page.get(key, [])
        if not page.get("NextToken"):
            return found
        if clock.monotonic() > deadline:
            raise CallError(ErrorKind.THROTTLED, "EC2's listing takes too long.")
        token = {"NextToken": page["NextToken"]}


def _refused(what: str, response: Mapping[str, Any]) -> CallError:
    error = response.get("Error", {})
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    kind = kind_of(code, status)
    # A redirect or a page of some proxy is an answer of nobody who knows: botocore gives it the status as its code.
    return CallError(kind, f"EC2 refused {what}: {code}: {message}"[:MESSAGE_LIMIT], code)

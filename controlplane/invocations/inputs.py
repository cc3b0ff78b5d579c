"""Where the payload of a request may be, when it does not come inline. Pure; shared by the gateway and the workers.

s3://bucket/key      the key as it is, no address: nothing in it is quoted. Read with the workers' own credentials of the
                     store: whatever these may read, any caller who may invoke the endpoint can name, so they should be
                     allowed the payloads' buckets and nothing else
https://host/path    from the hosts that the operator lists, port 443, no user in the address, no redirect followed;
                     which addresses a name may lead to is checked when it is fetched (`workers.invocations.addresses`)
"""

from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

HOSTS_SETTING = "HEADRACE_INPUT_HOSTS"
HTTPS_PORT = 443


def hosts_of(text: str) -> frozenset[str]:
    """The host names in a setting: separated by commas, in lower case."""
    return frozenset(name.strip().lower() for name in text.split(",") if name.strip())


def refusal(location: str, hosts: Collection[str]) -> str:
    """Why nothing may be fetched from `location`, in one sentence; empty when it may. `hosts` are the ones allowed."""
    if any(character < " " or character == "\x7f" for character in location):
        return f"InputLocation {location!r} holds control characters."
    if location.startswith("s3://"):
        return _s3_refusal(location)
    return _https_refusal(location, hosts) if location.startswith("https://") else _not_a_scheme(location)


def _not_a_scheme(location: str) -> str:
    return f"InputLocation {location!r} must be an s3:// or https:// location."


def _s3_refusal(location: str) -> str:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return "" if bucket and key else f"InputLocation {location!r} names no object: s3://bucket/key is wanted."


def _https_refusal(location: str, hosts: Collection[str]) -> str:
    if any(character in ' \\"<>^`{|}' for character in location):
        return f"InputLocation {location!r} holds characters that have no place in an address; quote them as %XX."
    try:
        parts = urlsplit(location)
        port = parts.port
    except ValueError:
        return f"InputLocation {location!r} is no address."
    if parts.username is not None or parts.password is not None:
        return "InputLocation must not hold a user name or a password."
    if port not in (None, HTTPS_PORT):
        return f"InputLocation {location!r} names port {port}; only {HTTPS_PORT} is fetched from."
    if (parts.hostname or "") not in hosts:
        return (
            f"InputLocation {location!r} is on a host that is not allowed. The operator of Headrace lists the hosts that "
            f"payloads may be fetched from in {HOSTS_SETTING}; s3:// locations need no entry."
        )
    return ""


def target_of(parts: SplitResult) -> str:
    """What the request line of a fetch names: path and query."""
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

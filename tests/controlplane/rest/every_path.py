"""Every method of every resource path, as the URL configuration has them, with values filled in."""

from collections.abc import Mapping
from uuid import UUID

from drf_spectacular.generators import EndpointEnumerator

from controlplane.config import urls
from tests.workers.plane import FIRST

SOME_ID = UUID("3a0e4e0a-1f5e-4f7e-8f39-cd7d2d1b86f1")
SAMPLES: Mapping[str, str] = {
    "access_key_id": "AKIANONE",
    "instance_id": str(SOME_ID),
    "instance_type": FIRST,
    "mark_id": "1",
    "name": "e",
    "orphan_id": "1",
    "request_id": str(SOME_ID),
    "token_id": str(SOME_ID),
    "EndpointConfigName": "e",
    "EndpointName": "e",
    "ModelName": "e",
}

NO_RESOURCES = frozenset({"/api/v1/", "/api/v1/schema/", "/api/v1/docs/", "/api/v1/redoc/"})
"""The index, which the document leaves out, and the documents, which anybody may read."""

READS_BY_POST = frozenset({"/api/v1/placement-previews", "/api/v1/metrics/queries"})
"""They change nothing, whatever their method."""

ADMINISTRATION = ("access-keys", "tokens", "quotas", "simulated-capacity", "orphans/confirm")


def every_template() -> list[tuple[str, str]]:
    """(method, path with placeholders) of all of them."""
    found = EndpointEnumerator(urlconf=urls).get_api_endpoints()
    return sorted((method, path) for path, _, method, _ in found if path not in NO_RESOURCES)


def filled(template: str, values: Mapping[str, str] = SAMPLES) -> str:
    """The path with a value for each placeholder; a KeyError means that SAMPLES lacks a new one."""
    if "/quotas/" in template or "/price" in template:
        values = {**values, "name": FIRST}
    return template.format_map(values)


def is_administration(path: str) -> bool:
    """Whether changes there are an administrator's."""
    return path.removeprefix("/api/v1/").startswith(ADMINISTRATION) or path.endswith("/price")


READS = [(method, path) for method, path in every_template() if method == "GET" or path in READS_BY_POST]
CHANGES = [each for each in every_template() if each not in READS]

"""The answers of the AWS door, held against the schemas that the OpenAPI document has of the same operations."""

from datetime import UTC, datetime
from typing import Any

from tests.contract.openapi import Document, Drift

SERVICES = ("sagemaker", "cloudwatch")


def watch(client: Any, judge: Document) -> None:
    """Have every answer to this boto3 client judged: a drift is raised in the midst of the call."""
    codes = judge.raw["components"]["schemas"]["ErrorCode"]["enum"]

    def look(model: Any, http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
        if http_response.status_code < 300:
            members = {name: _as_json(value) for name, value in parsed.items() if name != "ResponseMetadata"}
            judge.check_members(model.name, members)
        elif parsed["Error"]["Code"] not in codes:
            raise Drift(f"{model.name} answered the error {parsed['Error']['Code']!r}, which the document does not know.")

    for service in SERVICES:
        client.meta.events.register(f"after-call.{service}", look)


def _as_json(value: Any) -> Any:
    """As the resource paths would say it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return value

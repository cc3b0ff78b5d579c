"""Events of the fleet: one sentence on the endpoint they belong to."""

from collections.abc import Mapping
from datetime import datetime

from controlplane.endpoints.models import Endpoint
from controlplane.observability.events import Subject
from controlplane.observability.events import record as append


def record(
    endpoint: Endpoint, reason: str, sentence: str, now: datetime, detail: Mapping[str, object] | None = None
) -> None:
    """Append an event to the endpoint's story, with a full stop and a capital however the planner phrased it."""
    first_word = sentence.partition(" ")[0]
    text = sentence if "." in first_word else sentence[:1].upper() + sentence[1:]  # an instance type keeps its case
    text = text if text.endswith(".") else f"{text}."
    append(Subject(endpoint.account_id, "endpoint", endpoint.id, endpoint.name), reason, text, now=now, detail=detail)

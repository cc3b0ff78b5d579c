"""The list of endpoints: found by name and status, paged by key, each row with what an operator asks first.

A page costs four queries, whether there are ten endpoints or ten thousand.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from controlplane.console.endpoint_words import LABELS, TONES
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.states import Phase
from controlplane.invocations.backlog import Queued, queued_at

PAGE = 50
BY_NAME, BY_CHANGE = "name", "changed"


@dataclass(frozen=True)
class Asked:
    """What is looked for: part of a name, a status (blank: any), the order, and the last row of the page before."""

    text: str = ""
    status: str = ""
    order: str = BY_NAME
    after: str = ""


@dataclass(frozen=True)
class Row:
    """One endpoint; `at_home` of its serving instances are on a pool of the most wanted priority, None without a choice."""

    id: UUID
    account_id: str
    name: str
    status: str
    label: str
    tone: str
    why: str
    ready: int
    wanted: int
    at_home: int | None
    queued: Queued | None
    changed_at: datetime


@dataclass(frozen=True)
class Page:
    """The rows of a page and where the next one begins, blank on the last."""

    rows: tuple[Row, ...]
    after: str


def page(asked: Asked, limit: int = PAGE) -> Page:
    """The endpoints that are looked for."""
    found = list(_after(_found(asked), asked)[: limit + 1])
    shown = found[:limit]
    return Page(_rows(shown), _key(shown[-1], asked.order) if len(found) > limit else "")


def totals() -> list[tuple[str, str, int]]:
    """How many endpoints there are in each status that any is in: (status, label, count), in the order of a life."""
    counts = dict(Endpoint.objects.order_by().values_list("phase").annotate(Count("pk")))
    return [(phase.value, LABELS[phase.value], counts[phase.value]) for phase in Phase if phase.value in counts]


def _found(asked: Asked) -> "QuerySet[Endpoint]":
    rows = Endpoint.objects.all()
    if asked.text:
        rows = rows.filter(name__icontains=asked.text)
    if asked.status:
        rows = rows.filter(phase=asked.status)
    return rows


def _after(rows: "QuerySet[Endpoint]", asked: Asked) -> "QuerySet[Endpoint]":
    value, _, row_id = asked.after.rpartition("~")
    try:
        last = UUID(row_id) if value else None
        moment = datetime.fromisoformat(value) if last and asked.order == BY_CHANGE else None
    except ValueError:
        last = moment = None  # a page that nobody gave: the first one
    if asked.order == BY_CHANGE:
        rows = rows.order_by("-modified_at", "-id")
        return rows.filter(Q(modified_at__lt=moment) | Q(modified_at=moment, id__lt=last)) if moment else rows
    rows = rows.order_by("name", "id")
    return rows.filter(Q(name__gt=value) | Q(name=value, id__gt=last)) if last else rows


def _key(row: Endpoint, order: str) -> str:
    return f"{row.modified_at.isoformat() if order == BY_CHANGE else row.name}~{row.id}"


def _rows(endpoints: list[Endpoint]) -> tuple[Row, ...]:
    in_service = EndpointVariant.objects.filter(endpoint__in=endpoints, retired_at=None).prefetch_related("pools")
    variants: dict[UUID, list[EndpointVariant]] = {}
    for variant in in_service:
        variants.setdefault(variant.endpoint_id, []).append(variant)
    queued = queued_at([row.id for row in endpoints if row.is_async])
    return tuple(_row(row, variants.get(row.id, []), queued) for row in endpoints)


def _row(endpoint: Endpoint, standing: Iterable[EndpointVariant], queued: Mapping[UUID, Queued]) -> Row:
    own = [variant for variant in standing if variant.revision == endpoint.revision]
    return Row(
        id=endpoint.id,
        account_id=endpoint.account_id,
        name=endpoint.name,
        status=endpoint.phase,
        label=LABELS[endpoint.phase],
        tone=TONES[endpoint.phase],
        why=endpoint.failure_reason or endpoint.why,
        ready=sum(variant.current_count for variant in standing),
        wanted=sum(variant.desired_count for variant in standing),
        at_home=_at_home(own),
        queued=queued.get(endpoint.id),
        changed_at=endpoint.modified_at,
    )


def _at_home(variants: Iterable[EndpointVariant]) -> int | None:
    """Serving instances on a most wanted pool; None where no variant has pools of different priorities."""
    counts: Counter[bool] = Counter()
    has_choice = False
    for variant in variants:
        pools = list(variant.pools.all())
        best = min((pool.priority for pool in pools), default=1)
        has_choice = has_choice or any(pool.priority > best for pool in pools)
        for pool in pools:
            counts[pool.priority == best] += pool.current_count
    return counts[True] if has_choice else None

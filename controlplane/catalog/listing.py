"""Pages of List operations: filters, sort order, and tokens that only continue the listing they came from.

Keyset paging: a token holds the sort value and id of the last row shown, so rows that come or go between two pages
neither repeat nor hide others. Tokens are signed, with the listing as the salt: nothing but what was handed out for the
same listing is ever read back.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.db.models import Q, QuerySet

from controlplane.core.errors import ValidationException

DEFAULT_PAGE = 10
"""Documented for endpoints, seen in practice for models and configurations."""

TIME_FILTERS = {
    "CreationTimeAfter": "created_at__gte",
    "CreationTimeBefore": "created_at__lt",
    "LastModifiedTimeAfter": "modified_at__gte",
    "LastModifiedTimeBefore": "modified_at__lt",
}
"""After is inclusive, Before exclusive."""


@dataclass(frozen=True)
class Page:
    """Rows of one page and the token of the next, None on the last."""

    rows: list[Any]
    next_token: str | None


def page(rows: "QuerySet[Any]", params: Mapping[str, Any], sort_columns: Mapping[str, str]) -> Page:
    """One page of `rows` by the List operation's common parameters; `sort_columns` maps SortBy words to columns."""
    column = sort_columns[params.get("SortBy", "CreationTime")]
    descending = params.get("SortOrder", "Descending") == "Descending"
    signer = _signer(rows, params)
    rows = _filtered(rows, params)
    if "NextToken" in params:
        value, row_id = _read_token(params["NextToken"], signer, is_time=column == "created_at")
        step = "lt" if descending else "gt"
        rows = rows.filter(Q(**{f"{column}__{step}": value}) | Q(**{column: value, f"id__{step}": row_id}))
    sign = "-" if descending else ""
    limit = params.get("MaxResults", DEFAULT_PAGE)
    found = list(rows.order_by(f"{sign}{column}", f"{sign}id")[: limit + 1])
    if len(found) <= limit:
        return Page(found, None)
    last = found[limit - 1]
    return Page(found[:limit], _token(getattr(last, column), last.id, signer))


def _filtered(rows: "QuerySet[Any]", params: Mapping[str, Any]) -> "QuerySet[Any]":
    if "NameContains" in params:
        rows = rows.filter(name__icontains=params["NameContains"])
    return rows.filter(**{lookup: params[name] for name, lookup in TIME_FILTERS.items() if name in params})


def _signer(rows: "QuerySet[Any]", params: Mapping[str, Any]) -> Signer:
    """Signs for one listing: its kind of resource and every parameter but the page's own two."""
    listing = {name: value for name, value in params.items() if name not in ("NextToken", "MaxResults")}
    return Signer(salt=json.dumps([rows.model.__name__, listing], sort_keys=True, default=str))


def _token(value: datetime | str, row_id: UUID, signer: Signer) -> str:
    return signer.sign_object([value.isoformat() if isinstance(value, datetime) else value, str(row_id)])


def _read_token(token: str, signer: Signer, *, is_time: bool) -> tuple[datetime | str, UUID]:
    try:
        value, row_id = signer.unsign_object(token)
    except BadSignature as error:
        # The service this mirrors really leaves its placeholder unfilled; clients match on the text.
        raise ValidationException('Invalid pagination token because "{0}".') from error
    return (datetime.fromisoformat(value) if is_time else value), UUID(row_id)

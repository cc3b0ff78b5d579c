"""Pages of Headrace's own lists. Keyset paging: rows that come or go between two pages neither repeat nor hide others.

A token holds the key of the last row shown and is signed for its listing, so that none continues another's.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.signing import BadSignature, Signer
from django.db.models import QuerySet

from controlplane.core.errors import ValidationException


@dataclass(frozen=True)
class Page:
    """Rows of one page and the token of the next, None on the last."""

    rows: list[Any]
    next_token: str | None


def page(rows: "QuerySet[Any]", listing: str, members: Mapping[str, Any], *, key: str = "id", latest: bool = True) -> Page:
    """One page of `rows` by a unique column, descending where the latest come first.

    `listing` names the list and its account; the filters in `members` belong to it too.
    """
    signer = _signer(listing, members)
    if "NextToken" in members:
        last = _read(members["NextToken"], signer)
        rows = rows.filter(**{f"{key}__{'lt' if latest else 'gt'}": last})
    ordered = rows.order_by(f"-{key}" if latest else key)
    return _cut(list(ordered[: members["MaxResults"] + 1]), members, signer, lambda row: getattr(row, key))


def page_of(items: Sequence[Any], listing: str, members: Mapping[str, Any], key: Callable[[Any], str]) -> Page:
    """One page of items that are in memory, in ascending order of `key`."""
    signer = _signer(listing, members)
    if "NextToken" in members:
        last = _read(members["NextToken"], signer)
        items = [item for item in items if key(item) > last]
    return _cut(list(items[: members["MaxResults"] + 1]), members, signer, key)


def _cut(found: list[Any], members: Mapping[str, Any], signer: Signer, key: Callable[[Any], Any]) -> Page:
    limit = members["MaxResults"]
    if len(found) <= limit:
        return Page(found, None)
    last = key(found[limit - 1])
    return Page(found[:limit], signer.sign_object(last if isinstance(last, int) else str(last)))


def _signer(listing: str, members: Mapping[str, Any]) -> Signer:
    filters = {name: value for name, value in members.items() if name not in ("NextToken", "MaxResults")}
    return Signer(salt=json.dumps([listing, filters], sort_keys=True, default=str))


def _read(token: str, signer: Signer) -> Any:
    try:
        return signer.unsign_object(token)
    except (BadSignature, ValueError) as error:
        raise ValidationException("NextToken is not one that this list, with these filters, has given.") from error

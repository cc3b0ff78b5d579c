"""Pages of listings that are ordered by one unique column; their tokens are signed and only continue the same listing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.signing import BadSignature, Signer
from django.db.models import QuerySet

from controlplane.core.errors import InvalidNextToken

_OF_THE_PAGE = ("NextToken", "MaxRecords")


@dataclass(frozen=True)
class Page:
    """Rows of one page and the token of the next, None on the last."""

    rows: list[Any]
    next_token: str | None


def page(rows: "QuerySet[Any]", params: Mapping[str, Any], *, column: str, limit: int) -> Page:
    """At most `limit` of `rows` in the order of `column`, after those that the request's NextToken stands for."""
    listing = {name: value for name, value in params.items() if name not in _OF_THE_PAGE}
    signer = Signer(salt=json.dumps([rows.model.__name__, listing], sort_keys=True, default=str))
    if "NextToken" in params:
        rows = rows.filter(**{f"{column}__gt": _read(params["NextToken"], signer)})
    found = list(rows.order_by(column)[: limit + 1])
    if len(found) <= limit:
        return Page(found, None)
    return Page(found[:limit], signer.sign_object(str(getattr(found[limit - 1], column))))


def _read(token: str, signer: Signer) -> str:
    try:
        return str(signer.unsign_object(token))
    except BadSignature as error:
        raise InvalidNextToken("The NextToken continues no such listing.") from error

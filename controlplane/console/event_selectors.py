"""Reading events for the events page: keyset pages in the order of their ids, never counted."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from controlplane.auth.models import Account
from controlplane.observability.models import Event

PER_PAGE = 50


@dataclass(frozen=True)
class Search:
    """Which events: empty members do not filter. `before` and `after` are ids, exclusive; at most one of them is given."""

    reason: str = ""
    subject: str = ""
    actor: str = ""
    account_id: str = ""
    before: int | None = None
    after: int | None = None

    @property
    def is_first_page(self) -> bool:
        """Whether it shows what happened last."""
        return self.before is None and self.after is None


@dataclass(frozen=True)
class Page:
    """Some events, the latest first, and whether there are later and earlier ones."""

    events: Sequence[Event]
    has_later: bool
    has_earlier: bool


def find(search: Search) -> Page:
    """One page; one query."""
    rows = _filtered(search)
    if search.after is not None:
        found = list(rows.filter(id__gt=search.after).order_by("id")[: PER_PAGE + 1])
        more, found = len(found) > PER_PAGE, found[:PER_PAGE]
        return Page(found[::-1], has_later=more, has_earlier=True)
    if search.before is not None:
        rows = rows.filter(id__lt=search.before)
    found = list(rows.order_by("-id")[: PER_PAGE + 1])
    return Page(found[:PER_PAGE], has_later=search.before is not None, has_earlier=len(found) > PER_PAGE)


def _filtered(search: Search) -> "QuerySet[Event]":
    rows = Event.objects.all()
    if search.subject and not search.account_id:
        # Names are indexed within their accounts, of which there are few.
        rows = rows.filter(account_id__in=list(Account.objects.values_list("account_id", flat=True)))
    named = {
        "reason": search.reason,
        "subject_name": search.subject,
        "actor": search.actor,
        "account_id": search.account_id,
    }
    return rows.filter(**{column: value for column, value in named.items() if value})


REASONS_SEEN = """
WITH RECURSIVE seen AS (
  (SELECT reason FROM observability_event ORDER BY reason LIMIT 1)
  UNION ALL
  SELECT (SELECT reason FROM observability_event WHERE reason > seen.reason ORDER BY reason LIMIT 1)
  FROM seen WHERE seen.reason IS NOT NULL
) SELECT reason FROM seen WHERE reason IS NOT NULL
"""
"""The distinct reasons by hops through an index: as many steps as there are reasons, however many events there are."""

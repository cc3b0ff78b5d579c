"""Deleting several endpoints at once: ticked, asked about once, and each deleted through the service that the API calls.

Each is its own transaction, so that one that is refused keeps no other from going; every refusal is told by name.
"""

import json
import re
from dataclasses import dataclass

from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from controlplane.console import actions
from controlplane.console import actions_seen as seen
from controlplane.console.endpoint_facts import of_endpoints
from controlplane.core import clock
from controlplane.core.errors import ApiError
from controlplane.core.ids import Arn
from controlplane.core.words import counted
from controlplane.endpoints import services
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import Instance
from controlplane.fleet.states import LIVE_STAGES
from controlplane.invocations.backlog import Queued, queued_at

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

LIMIT = 500
"""At once: as many as a form may carry fields, and half."""

CONFIRMED_LIMIT = 2_000_000
"""Characters of what is confirmed: the facts of so many endpoints take a few hundred each."""


@dataclass(frozen=True)
class Doomed:
    """One endpoint of the question: what goes with it."""

    row: Endpoint
    instances: int
    queued: Queued | None


@actions.operator
@require_POST
def delete(request: HttpRequest) -> HttpResponse:
    """The question for what was ticked; with `confirmed`, the deletion."""
    back = reverse("admin:endpoints")
    if "confirmed" in request.POST:
        _delete_all(request, request.POST["confirmed"])
        return HttpResponseRedirect(back, status=303)
    ids = request.POST.getlist("endpoint")
    if not ids or len(ids) > LIMIT or not all(map(_is_id, ids)):
        messages.warning(request, f"Tick the endpoints to be deleted, {LIMIT} at most.")
        return HttpResponseRedirect(f"{back}?select=1", status=303)
    found = _doomed(list(Endpoint.objects.filter(pk__in=ids).order_by("name", "account_id")))
    context = {
        **admin.site.each_context(request),
        "title": f"Delete {counted(len(found), 'endpoint')}?",
        "doomed": found,
        "instances": sum(each.instances for each in found),
        "confirmed": json.dumps(of_endpoints([each.row for each in found])),
        "back": back,
    }
    return TemplateResponse(request, "console/endpoint/delete.html", context)


def _is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def _doomed(rows: list[Endpoint]) -> list[Doomed]:
    live = Instance.objects.filter(endpoint__in=rows, stage__in=LIVE_STAGES).order_by()
    counts = dict(live.values_list("endpoint_id").annotate(Count("id")))
    queued = queued_at([row.id for row in rows if row.is_async])
    return [Doomed(row, counts.get(row.id, 0), queued.get(row.id)) for row in rows]


def _delete_all(request: HttpRequest, confirmed: str) -> None:
    asked = seen.parsed(confirmed, CONFIRMED_LIMIT)
    if not isinstance(asked, dict) or len(asked) > LIMIT or not all(map(_is_id, asked)):
        messages.error(request, "What was confirmed could not be read. Nothing was deleted.")
        return
    refusals, deleted = [], []
    for row in Endpoint.objects.filter(pk__in=asked).order_by("name"):
        why = _delete_one(row, asked[str(row.pk)])
        refusals += [f"{row.name}: {why}"] if why else []
        deleted += [] if why else [row.name]
    if deleted:
        messages.success(request, f"{counted(len(deleted), 'endpoint')} being deleted: {', '.join(deleted)}.")
    for refusal in refusals:
        messages.error(request, refusal)
    gone = len(asked) - len(deleted) - len(refusals)
    if gone:
        messages.info(request, f"{counted(gone, 'endpoint')} had gone meanwhile.")


def _delete_one(row: Endpoint, before: object) -> str:
    """Delete one as it was shown; returns why not, blank when it is being deleted."""
    if not isinstance(before, dict):
        return "what was confirmed could not be read"
    arn = Arn(settings.HEADRACE.region, row.account_id, "endpoint", row.name)
    try:
        with transaction.atomic():
            Endpoint.objects.select_for_update(no_key=True).filter(pk=row.pk).first()
            now = of_endpoints([row]).get(str(row.pk), {})
            changes = seen.changes({str(k): str(v) for k, v in before.items()}, now)
            if changes:
                return f"changed meanwhile ({'; '.join(map(str, changes))}); look again"
            services.delete_endpoint(arn=arn, now=clock.now())
    except ApiError as error:
        return error.message
    return ""

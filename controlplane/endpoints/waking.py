"""Waking: an asynchronous endpoint that has no instances gets some once something is queued for it.

Asked for by the option `headrace:wake`. It looks at the queue and at nothing else, so that no wake-up can be lost: a
request that is queued at the very moment of scaling to zero is seen by the next look.
"""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from controlplane.catalog.models import Tag
from controlplane.core.errors import ResourceLimitExceeded
from controlplane.endpoints import usage
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.options import PREFIX
from controlplane.endpoints.selectors import options_of, variants_in_service
from controlplane.endpoints.services import change_variant
from controlplane.endpoints.states import Phase
from controlplane.endpoints.wishes import tell, wish
from controlplane.invocations.models import AsyncInvocation, InvocationState

TAG = f"{PREFIX}wake"

HOLD_DOWN_SECONDS = 60.0
"""How long an endpoint rests after a change of its capacity has failed: there was none a moment ago."""

BATCH = 100

log = logging.getLogger(__name__)


def wake_due(now: datetime) -> int:
    """Wake every endpoint that asks for it and has requests but no instances; returns how many were woken."""
    found = _asleep(now).values_list("id", flat=True)[:BATCH]
    return sum(_wake(endpoint_id, now) for endpoint_id in list(found))


def _asleep(now: datetime) -> "QuerySet[Endpoint]":
    queued = AsyncInvocation.objects.filter(
        endpoint_id=OuterRef("id"), state=InvocationState.QUEUED, failure_kind="", expires_at__gt=now
    )
    rested = Q(failure_reason="") | Q(modified_at__lte=now - timedelta(seconds=HOLD_DOWN_SECONDS))
    asking = Tag.objects.filter(key=TAG).values("resource_id")
    wanting = EndpointVariant.objects.filter(endpoint_id=OuterRef("id"), retired_at=None, desired_count__gt=0)
    rows = Endpoint.objects.filter(rested, is_async=True, phase=Phase.IN_SERVICE, id__in=asking)
    return rows.filter(~Exists(wanting), Exists(queued)).order_by("modified_at")


def _wake(endpoint_id: UUID, now: datetime) -> bool:
    try:
        with transaction.atomic():
            return _wake_locked(endpoint_id, now)
    except ResourceLimitExceeded as error:
        log.warning("endpoint %s has requests and cannot be woken: %s", endpoint_id, error)
        return False


def _wake_locked(endpoint_id: UUID, now: datetime) -> bool:
    """Want instances, unless somebody else has wanted something meanwhile."""
    endpoint = Endpoint.objects.select_for_update(no_key=True).filter(pk=endpoint_id, phase=Phase.IN_SERVICE).first()
    if endpoint is None:
        return False
    variants, count = list(variants_in_service(endpoint)), options_of(endpoint).wake_count
    if count is None or any(variant.desired_count for variant in variants):
        return False
    variant = variants[0]
    usage.check_increase(endpoint.account_id, [(variant, count)])
    change_variant(variant, {"DesiredInstanceCount": count}, now)
    wish(endpoint, Phase.UPDATING, now, failure_reason="")
    sentence = f"Requests are queued and there is no instance: variant {variant.name} wakes up to {count} ({TAG})."
    tell(endpoint, "WokenByBacklog", sentence, now)
    return True

"""The API's operations on tags. They live here since this is the last app that owns resources with tags."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from controlplane.catalog.models import EndpointConfig, Model, Tag
from controlplane.catalog.rules import misplaced_option_violations, tag_violations
from controlplane.catalog.selectors import tags_of
from controlplane.catalog.services import add_tags as store_tags
from controlplane.catalog.services import refuse_violations
from controlplane.core import hints
from controlplane.core.errors import ValidationException
from controlplane.core.ids import Arn
from controlplane.endpoints import options
from controlplane.endpoints.models import Endpoint
from controlplane.wire.registry import Context, operation

Params = Mapping[str, Any]
Answer = dict[str, Any]

_TAGGED = {"model": Model, "endpoint-config": EndpointConfig, "endpoint": Endpoint}
"""ARN kind -> what it names."""


def _resource_id(context: Context, text: str, *, is_locked: bool = False) -> UUID:
    """The id behind an ARN of the caller's account and region, whatever the case of its name.

    Locked, its tags change one request after the other, so that two of them cannot pass the limit together, and none
    is added to a resource that is being deleted.
    """
    arn = Arn.parse(text)
    if arn is None or arn.kind not in _TAGGED:
        raise ValidationException(f"{text!r} is not the ARN of a model, an endpoint configuration or an endpoint.")
    found = None
    if (arn.account_id, arn.region) == (context.account_id, context.region):
        rows = _TAGGED[arn.kind].objects.filter(account_id=arn.account_id, name__iexact=arn.name)
        rows = rows.select_for_update(no_key=True) if is_locked else rows
        found = rows.values_list("id", flat=True).first()
    if found is None:
        raise ValidationException("Resource does not exist.")
    return found


@operation("AddTags")
def add_tags(context: Context, params: Params) -> Answer:
    with transaction.atomic():
        resource_id = _resource_id(context, params["ResourceArn"], is_locked=True)
        existing = [tag["Key"] for tag in tags_of(resource_id)]
        refuse_violations(tag_violations(params["Tags"], existing))
        _refuse_options(params["ResourceArn"], params["Tags"])
        store_tags(resource_id, params["Tags"])
        _look_again(resource_id, context.now)
    return {"Tags": tags_of(resource_id)}


@operation("ListTags")
def list_tags(context: Context, params: Params) -> Answer:
    """A resource has at most 50 tags and a page at least 50, so there is always one page."""
    if "NextToken" in params:
        raise ValidationException('Invalid pagination token because "{0}".')
    return {"Tags": tags_of(_resource_id(context, params["ResourceArn"]))}


@operation("DeleteTags")
def delete_tags(context: Context, params: Params) -> Answer:
    resource_id = _resource_id(context, params["ResourceArn"])
    with transaction.atomic():
        Tag.objects.filter(resource_id=resource_id, key__in=params["TagKeys"]).delete()
        _look_again(resource_id, context.now)
    return {}


def _refuse_options(arn: str, tags: Sequence[Mapping[str, str]]) -> None:
    """Option tags must make sense, and have an effect on endpoints only."""
    parsed = Arn.parse(arn)
    if parsed is not None and parsed.kind == "endpoint":
        rows = Endpoint.objects.filter(account_id=parsed.account_id, name=parsed.name, is_async=True)
        refuse_violations(options.violations(((tag["Key"], tag["Value"]) for tag in tags), is_async=rows.exists()))
    else:
        refuse_violations(misplaced_option_violations(tags))


def _look_again(resource_id: UUID, now: datetime) -> None:
    """Whoever looks after the endpoint is to see its options at once."""
    if Endpoint.objects.filter(pk=resource_id).update(look_again_at=now, generation=F("generation") + 1):
        hints.ring_after_commit(hints.RECONCILE, resource_id)

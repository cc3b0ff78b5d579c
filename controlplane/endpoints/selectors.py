"""Reading endpoints. Selectors read and never lock."""

from django.db.models import F, QuerySet

from controlplane.catalog.models import Tag
from controlplane.core.errors import not_found
from controlplane.core.ids import Arn
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.options import PREFIX, Options, parse


def get_endpoint(account_id: str, region: str, name: str) -> Endpoint:
    """The named endpoint; raises the API's not-found error."""
    row = Endpoint.objects.filter(account_id=account_id, name=name).first()
    if row is None:
        raise not_found("endpoint", str(Arn(region, account_id, "endpoint", name)))
    return row


def standing_variants(endpoint: Endpoint) -> "QuerySet[EndpointVariant]":
    """The variants of every revision of which something is left, or is to be, with their pools."""
    return endpoint.variants.filter(retired_at=None).prefetch_related("pools")


def variants_in_service(endpoint: Endpoint) -> "QuerySet[EndpointVariant]":
    """The variants of the revision in service, with their pools."""
    return endpoint.variants.filter(revision=F("endpoint__revision")).prefetch_related("pools")


def options_of(endpoint: Endpoint) -> Options:
    """The endpoint's options, from its tags."""
    return parse(Tag.objects.filter(resource_id=endpoint.id, key__startswith=PREFIX).values_list("key", "value"))

"""Reading the catalogue. Selectors read and never lock."""

from controlplane.catalog.models import EndpointConfig, Model, Tag
from controlplane.core.errors import not_found
from controlplane.core.ids import Arn


def get_model(account_id: str, region: str, name: str) -> Model:
    """The named model; raises the API's not-found error."""
    row = Model.objects.filter(account_id=account_id, name=name).first()
    if row is None:
        raise not_found("model", str(Arn(region, account_id, "model", name)))
    return row


def get_endpoint_config(account_id: str, region: str, name: str) -> EndpointConfig:
    """The named endpoint configuration; raises the API's not-found error."""
    row = EndpointConfig.objects.filter(account_id=account_id, name=name).first()
    if row is None:
        raise not_found("endpoint configuration", str(Arn(region, account_id, "endpoint-config", name)))
    return row


def tags_of(resource_id: object) -> list[dict[str, str]]:
    """A resource's tags in the order in which they were added."""
    return [{"Key": tag.key, "Value": tag.value} for tag in Tag.objects.filter(resource_id=resource_id)]

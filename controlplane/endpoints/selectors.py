"""Reading endpoints. Selectors read and never lock."""

from controlplane.core.errors import not_found
from controlplane.core.ids import Arn
from controlplane.endpoints.models import Endpoint


def get_endpoint(account_id: str, region: str, name: str) -> Endpoint:
    """The named endpoint; raises the API's not-found error."""
    row = Endpoint.objects.filter(account_id=account_id, name=name).first()
    if row is None:
        raise not_found("endpoint", str(Arn(region, account_id, "endpoint", name)))
    return row

"""The API's operations on endpoints."""

from collections.abc import Mapping
from typing import Any

from controlplane.catalog import listing
from controlplane.core.ids import Arn
from controlplane.endpoints import deployments, describe, selectors, services
from controlplane.endpoints.models import Endpoint
from controlplane.wire.registry import Context, operation

Params = Mapping[str, Any]
Answer = dict[str, Any]

SORT_COLUMNS = {"Name": "name", "CreationTime": "created_at", "Status": "phase"}


def _arn(context: Context, name: str) -> Arn:
    return Arn(context.region, context.account_id, "endpoint", name)


@operation("CreateEndpoint")
def create_endpoint(context: Context, params: Params) -> Answer:
    arn = _arn(context, params["EndpointName"])
    services.create_endpoint(
        arn=arn,
        config_name=params["EndpointConfigName"],
        tags=params.get("Tags", []),
        now=context.now,
        deployment_config=params.get("DeploymentConfig"),
    )
    return {"EndpointArn": str(arn)}


@operation("UpdateEndpoint")
def update_endpoint(context: Context, params: Params) -> Answer:
    arn = _arn(context, params["EndpointName"])
    deployments.update_endpoint(arn=arn, update=deployments.Update.of(params), now=context.now)
    return {"EndpointArn": str(arn)}


@operation("DescribeEndpoint")
def describe_endpoint(context: Context, params: Params) -> Answer:
    row = selectors.get_endpoint(context.account_id, context.region, params["EndpointName"])
    return describe.endpoint(row, str(_arn(context, row.name)))


@operation("ListEndpoints")
def list_endpoints(context: Context, params: Params) -> Answer:
    rows = Endpoint.objects.filter(account_id=context.account_id)
    if "StatusEquals" in params:
        rows = rows.filter(phase=params["StatusEquals"])
    page = listing.page(rows, params, SORT_COLUMNS)
    return {
        "Endpoints": [describe.summary(row, str(_arn(context, row.name))) for row in page.rows],
        "NextToken": page.next_token,
    }


@operation("DeleteEndpoint")
def delete_endpoint(context: Context, params: Params) -> Answer:
    services.delete_endpoint(arn=_arn(context, params["EndpointName"]), now=context.now)
    return {}


@operation("UpdateEndpointWeightsAndCapacities")
def update_endpoint_weights_and_capacities(context: Context, params: Params) -> Answer:
    arn = _arn(context, params["EndpointName"])
    services.update_weights_and_capacities(arn=arn, changes=params["DesiredWeightsAndCapacities"], now=context.now)
    return {"EndpointArn": str(arn)}

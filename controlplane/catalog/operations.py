"""The API's operations on models and endpoint configurations."""

from collections.abc import Mapping
from typing import Any

from controlplane.catalog import listing, selectors, services
from controlplane.catalog.models import EndpointConfig, Model
from controlplane.core.errors import not_found
from controlplane.core.ids import Arn
from controlplane.wire.registry import Context, operation

Params = Mapping[str, Any]
Answer = dict[str, Any]

SORT_COLUMNS = {"Name": "name", "CreationTime": "created_at"}


def _arn(context: Context, kind: str, name: str) -> Arn:
    return Arn(context.region, context.account_id, kind, name)


@operation("CreateModel")
def create_model(context: Context, params: Params) -> Answer:
    arn = _arn(context, "model", params["ModelName"])
    services.create_model(arn=arn, params=params, now=context.now)
    return {"ModelArn": str(arn)}


@operation("DescribeModel")
def describe_model(context: Context, params: Params) -> Answer:
    row = selectors.get_model(context.account_id, context.region, params["ModelName"])
    return {
        "EnableNetworkIsolation": False,
        **row.request,
        "ModelArn": str(_arn(context, "model", row.name)),
        "CreationTime": row.created_at,
    }


@operation("ListModels")
def list_models(context: Context, params: Params) -> Answer:
    page = listing.page(Model.objects.filter(account_id=context.account_id), params, SORT_COLUMNS)
    models = [
        {"ModelName": row.name, "ModelArn": str(_arn(context, "model", row.name)), "CreationTime": row.created_at}
        for row in page.rows
    ]
    return {"Models": models, "NextToken": page.next_token}


@operation("DeleteModel")
def delete_model(context: Context, params: Params) -> Answer:
    row = selectors.get_model(context.account_id, context.region, params["ModelName"])
    if not services.delete_resource(row):
        raise not_found("model", str(_arn(context, "model", row.name)))
    return {}


@operation("CreateEndpointConfig")
def create_endpoint_config(context: Context, params: Params) -> Answer:
    arn = _arn(context, "endpoint-config", params["EndpointConfigName"])
    services.create_endpoint_config(arn=arn, params=params, now=context.now)
    return {"EndpointConfigArn": str(arn)}


@operation("DescribeEndpointConfig")
def describe_endpoint_config(context: Context, params: Params) -> Answer:
    row = selectors.get_endpoint_config(context.account_id, context.region, params["EndpointConfigName"])
    variants = {
        kind: [{"InitialVariantWeight": 1.0, **variant} for variant in row.request[kind]]
        for kind in ("ProductionVariants", "ShadowProductionVariants")
        if kind in row.request
    }
    return {
        "EnableNetworkIsolation": False,
        **row.request,
        **variants,
        "EndpointConfigArn": str(_arn(context, "endpoint-config", row.name)),
        "CreationTime": row.created_at,
    }


@operation("ListEndpointConfigs")
def list_endpoint_configs(context: Context, params: Params) -> Answer:
    page = listing.page(EndpointConfig.objects.filter(account_id=context.account_id), params, SORT_COLUMNS)
    configs = [
        {
            "EndpointConfigName": row.name,
            "EndpointConfigArn": str(_arn(context, "endpoint-config", row.name)),
            "CreationTime": row.created_at,
        }
        for row in page.rows
    ]
    return {"EndpointConfigs": configs, "NextToken": page.next_token}


@operation("DeleteEndpointConfig")
def delete_endpoint_config(context: Context, params: Params) -> Answer:
    row = selectors.get_endpoint_config(context.account_id, context.region, params["EndpointConfigName"])
    if not services.delete_resource(row):
        raise not_found("endpoint configuration", str(_arn(context, "endpoint-config", row.name)))
    return {}

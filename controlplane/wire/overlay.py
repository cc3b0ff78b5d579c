"""The few places where Headrace differs from the service models it is driven by.

- `HONOURED` lists, for each input structure, the members that have an effect here. A member that the model knows and
  that is not listed is refused by name, never ignored; one that even the model does not know is ignored.
- Instance types come from the catalogue, so an operator's own types are legal: `InstanceTypes` replaces the enum.
- Patterns written for Java are translated for Python's `re`.
"""

import re
from functools import lru_cache

EVERYTHING = frozenset({"*"})

HONOURED: dict[str, frozenset[str]] = {
    "CreateModelInput": frozenset({"ModelName", "PrimaryContainer", "Containers", "ExecutionRoleArn", "Tags"}),
    "ContainerDefinition": frozenset({"ContainerHostname", "Image", "Mode", "ModelDataUrl", "Environment"}),
    "Tag": EVERYTHING,
    "CreateEndpointConfigInput": frozenset(
        {
            "EndpointConfigName",
            "ProductionVariants",
            "AsyncInferenceConfig",
            "ShadowProductionVariants",
            "DataCaptureConfig",
            "Tags",
            "ExecutionRoleArn",
        }
    ),
    "ProductionVariant": frozenset(
        {
            "VariantName",
            "ModelName",
            "InitialInstanceCount",
            "InstanceType",
            "InstancePools",
            "VariantInstanceProvisionTimeoutInSeconds",
            "InitialVariantWeight",
            "RoutingConfig",
            "ModelDataDownloadTimeoutInSeconds",
            "ContainerStartupHealthCheckTimeoutInSeconds",
        }
    ),
    "InstancePool": EVERYTHING,
    "ProductionVariantRoutingConfig": EVERYTHING,
    "PrefixAwareRoutingConfig": EVERYTHING,
    "AsyncInferenceConfig": EVERYTHING,
    "AsyncInferenceClientConfig": EVERYTHING,
    "AsyncInferenceOutputConfig": EVERYTHING,
    "AsyncInferenceNotificationConfig": EVERYTHING,
    "DataCaptureConfig": EVERYTHING,
    "CaptureOption": EVERYTHING,
    "CaptureContentTypeHeader": EVERYTHING,
    "CreateEndpointInput": frozenset({"EndpointName", "EndpointConfigName", "DeploymentConfig", "Tags"}),
    "UpdateEndpointInput": EVERYTHING,
    "VariantProperty": EVERYTHING,
    "DeploymentConfig": EVERYTHING,
    "BlueGreenUpdatePolicy": EVERYTHING,
    "TrafficRoutingConfig": EVERYTHING,
    "CapacitySize": EVERYTHING,
    "RollingUpdatePolicy": EVERYTHING,
    "AutoRollbackConfig": EVERYTHING,
    "Alarm": EVERYTHING,
    "DesiredWeightAndCapacity": frozenset({"VariantName", "DesiredWeight", "DesiredInstanceCount"}),
    "InvokeEndpointInput": frozenset(
        {
            "EndpointName",
            "Body",
            "ContentType",
            "Accept",
            "CustomAttributes",
            "TargetVariant",
            "InferenceId",
            "SessionId",
            "PrefixAwareId",
        }
    ),
    "InvokeEndpointWithResponseStreamInput": frozenset(
        {
            "EndpointName",
            "Body",
            "ContentType",
            "Accept",
            "CustomAttributes",
            "TargetVariant",
            "InferenceId",
            "SessionId",
            "PrefixAwareId",
        }
    ),
    "InvokeEndpointAsyncInput": frozenset(
        {
            "EndpointName",
            "Body",
            "InputLocation",
            "ContentType",
            "Accept",
            "CustomAttributes",
            "InferenceId",
            "S3OutputPathExtension",
            "Filename",
            "RequestTTLSeconds",
            "InvocationTimeoutSeconds",
        }
    ),
    # Metrics and alarms. Actions of an alarm are kept and shown, and run nowhere.
    "PutMetricAlarmInput": frozenset(
        {
            "AlarmName",
            "AlarmDescription",
            "ActionsEnabled",
            "OKActions",
            "AlarmActions",
            "InsufficientDataActions",
            "MetricName",
            "Namespace",
            "Statistic",
            "ExtendedStatistic",
            "Dimensions",
            "Period",
            "Unit",
            "EvaluationPeriods",
            "DatapointsToAlarm",
            "Threshold",
            "ComparisonOperator",
            "TreatMissingData",
            "EvaluateLowSampleCountPercentile",
        }
    ),
    "SetAlarmStateInput": EVERYTHING,
    "PutMetricDataInput": frozenset({"Namespace", "MetricData"}),
    "MetricDatum": EVERYTHING,
    "StatisticSet": EVERYTHING,
    "Dimension": EVERYTHING,
    "DimensionFilter": EVERYTHING,
    "GetMetricStatisticsInput": EVERYTHING,
    "GetMetricDataInput": frozenset({"MetricDataQueries", "StartTime", "EndTime", "NextToken", "ScanBy"}),
    "MetricDataQuery": frozenset({"Id", "MetricStat", "Label", "ReturnData"}),
    "MetricStat": EVERYTHING,
    "Metric": EVERYTHING,
}

HONOURED_VALUES: dict[str, frozenset[str]] = {
    "ContainerMode": frozenset({"SingleModel"}),
    "ComparisonOperator": frozenset(
        {
            "GreaterThanOrEqualToThreshold",
            "GreaterThanThreshold",
            "LessThanThreshold",
            "LessThanOrEqualToThreshold",
        }
    ),
}
"""Enums of which only some values have an effect here."""

NEUTRAL_SWITCHES = frozenset({"EnableNetworkIsolation", "EnableSSMAccess"})
"""Booleans whose `false`, which Terraform sends unasked, is what happens anyway; `true` is refused."""

COMPONENT_REFUSED = (
    "Inference Component Name header is not allowed for endpoints to which you dont plan to deploy inference components. "
    "Please remove the Inference Component Name header and try again."
)
"""What clients of endpoints without inference components are told (contract 7); there are no others here."""

INSTANCE_TYPE_SHAPE = "ProductionVariantInstanceType"
"""The enum that the catalogue replaces."""

_INPUTS_WITH_EVERYTHING = ("Describe", "List", "Delete", "AddTags", "UpdateEndpointWeightsAndCapacities")

_SEPARATORS = " \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
_TRANSLATIONS = (
    # What Java has and Python's `re` lacks, as the models of the honoured operations use it.
    (r"\p{L}\p{Z}\p{N}", "\\w" + _SEPARATORS),
    (r"\S[\p{Print}]", r"[\x21-\x7e][\x20-\x7e]"),  # Python's \S would let a header begin with any letter
    (r"\p{Print}", r"\x20-\x7e"),
    (r"\d", "[0-9]"),  # Python's would take the digits of every script
    (r"\p{ASCII}", r"[\x00-\x7f]"),
    (r"\z", r"\Z"),
)


def honoured_members(shape_name: str) -> frozenset[str]:
    """The members of an input structure that have an effect; EVERYTHING for reads and deletes."""
    if shape_name.startswith(_INPUTS_WITH_EVERYTHING):
        return EVERYTHING
    return HONOURED[shape_name]


@lru_cache(maxsize=512)
def compiled(pattern: str) -> re.Pattern[str]:
    """A model's pattern as Python's `re` understands it."""
    for java, python in _TRANSLATIONS:
        pattern = pattern.replace(java, python)
    return re.compile(pattern)
